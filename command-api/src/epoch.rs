//! Epoch of the log, and its raise after a restore that has lost events. Table
//! `event_store.log_epochs` has the history.
//!
//! A raise changes nothing but the epoch. Relay and projectors refuse cursors and checkpoints of a
//! former epoch, until a republish moves the cursors and a rebuild replaces the read tables.

use anyhow::{Context as _, bail};
use clap::Args;
use linkledger_core::{
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::{
    log::{self, PerShard},
    log_meta,
    transaction::PoolTransaction,
};
use linkledger_service::{databases::Databases, operator::parse_text};
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use crate::relay::cursor;

/// Request to raise the epoch of the log.
#[derive(Debug, Clone, Args)]
pub struct Raise {
    /// Reason, recorded in the history of epochs.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
    /// Make the new epoch higher than this one, which was published but is missing in the restored
    /// database. Only needed for an epoch that neither the database nor the relay knows.
    #[arg(long, value_name = "EPOCH", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..i64::from(i32::MAX)))]
    pub above: i32,
    /// Show the result, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Result of a raise, or of a dry run.
#[derive(Debug, Clone, Serialize)]
pub struct Raised {
    /// Epoch of all events that are published from now on.
    pub epoch: i32,
    /// Epoch before the raise.
    pub former_epoch: i32,
    /// False after a dry run.
    pub raised: bool,
    /// Operator who asked for the raise.
    pub by: String,
    /// Reason of the raise.
    pub reason: String,
    /// Heads of the shards at the raise.
    pub heads: PerShard<Position>,
}

/// Earlier raise of the epoch.
#[derive(Debug, Clone, Serialize)]
pub struct PastRaise {
    /// Epoch after the raise.
    pub epoch: i32,
    /// Epoch before the raise.
    pub former_epoch: i32,
    /// Time of the raise.
    #[serde(rename = "at", serialize_with = "timestamp::serialize")]
    pub raised_at: OffsetDateTime,
    /// Operator who raised the epoch.
    #[serde(rename = "by")]
    pub raised_by: String,
    /// Reason of the raise.
    pub reason: String,
    /// Head of each shard at the raise.
    pub heads: Vec<Position>,
}

/// Cursors of the relay in one epoch.
#[derive(Debug, Clone, Serialize)]
pub struct PublishedEpoch {
    /// Epoch of the published records.
    pub epoch: i32,
    /// Number of shards.
    pub shards: i64,
}

/// Live checkpoints of a projection in one epoch.
#[derive(Debug, Clone, Serialize)]
pub struct ProjectedEpoch {
    /// Name of the projection.
    pub projection: String,
    /// Epoch of the applied events.
    pub epoch: i32,
    /// Number of shards.
    pub shards: i64,
}

/// Epochs of the log, of the published records and of the read tables.
#[derive(Debug, Clone, Serialize)]
pub struct Epochs {
    /// Epoch of the log.
    pub epoch: i32,
    /// Raises, the latest first.
    pub raises: Vec<PastRaise>,
    /// Epochs of the relay's cursors.
    pub published: Vec<PublishedEpoch>,
    /// Epochs of the live checkpoints.
    pub projected: Vec<ProjectedEpoch>,
    /// A remedy for each cursor and read table of another epoch.
    pub remedies: Vec<String>,
}

/// Raises the epoch above every known epoch, in the name of an operator.
///
/// # Errors
/// Returns an error if a relay publishes, or the database fails.
pub async fn raise(databases: &Databases, raise: Raise, by: String) -> anyhow::Result<Raised> {
    // Read before the lock of the log, which must not wait for another server.
    let projected = projected_epoch(&databases.read).await?;
    let mut tx = PoolTransaction::begin(&databases.log)
        .await
        .context("cannot begin a transaction")?;
    // The lock keeps other raises out until the commit; relays acquire no lease meanwhile.
    let former_epoch = sqlx::query_scalar!("SELECT epoch FROM event_store.log_meta FOR UPDATE")
        .fetch_one(&mut *tx)
        .await
        .context("cannot lock the epoch; retry the command")?;
    let highest = highest_known(&mut tx, projected, former_epoch).await?;
    let epoch = highest.max(raise.above) + 1;
    let heads = log::heads(&mut *tx).await;
    let heads = heads.context("cannot read the heads of the log")?;
    if !raise.dry_run {
        sqlx::query!("UPDATE event_store.log_meta SET epoch = $1", epoch)
            .execute(&mut *tx)
            .await
            .context("cannot raise the epoch")?;
        sqlx::query!(
            "INSERT INTO event_store.log_epochs (epoch, former_epoch, raised_by, reason, heads)
             VALUES ($1, $2, $3, $4, $5)",
            epoch,
            former_epoch,
            by,
            raise.reason,
            &heads
        )
        .execute(&mut *tx)
        .await
        .context("cannot record the raise of the epoch")?;
        tx.commit().await.context(
            "the outcome of the raise is unknown; `command-api log epoch show` shows the epoch",
        )?;
    }
    Ok(Raised {
        epoch,
        former_epoch,
        raised: !raise.dry_run,
        by,
        reason: raise.reason,
        heads,
    })
}

/// Returns the highest epoch of log, cursors and read tables, unless a relay publishes. A paused or
/// refusing relay does not publish.
async fn highest_known(
    tx: &mut PgConnection,
    projected: Option<i32>,
    log_epoch: i32,
) -> anyhow::Result<i32> {
    let cursors = cursor::lock_in_tx(&mut *tx).await?;
    for (shard, cursor) in Shard::all().zip(&cursors) {
        if cursor.is_published() {
            let owner = cursor.owner.as_deref().unwrap_or_default();
            bail!(
                "{owner} publishes shard {shard}: the epoch can only be raised while no relay \
                 publishes. After a restore, stop every command-api; else run `command-api relay \
                 pause --reason …`. Retry after a second. Nothing was changed"
            );
        }
    }
    let published = cursors
        .iter()
        .map(|cursor| cursor.lost_epoch.max(Some(cursor.epoch)));
    let known = published.chain([projected]).flatten();
    Ok(known.fold(log_epoch, i32::max))
}

/// Returns the highest epoch of the read tables.
async fn projected_epoch(read: &PgPool) -> anyhow::Result<Option<i32>> {
    sqlx::query_scalar!("SELECT max(epoch) FROM read_model.checkpoints")
        .fetch_one(read)
        .await
        .context("cannot read the checkpoints")
}

/// Reads the epochs of the log, of the published records and of the read tables.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read(databases: &Databases) -> anyhow::Result<Epochs> {
    let pool = &databases.log;
    let epoch = log_meta::epoch(pool).await;
    let epoch = epoch.context("cannot read the epoch of the log")?;
    let raises = sqlx::query_as!(
        PastRaise,
        "SELECT epoch, former_epoch, raised_at, raised_by, reason, heads
         FROM event_store.log_epochs ORDER BY epoch DESC"
    )
    .fetch_all(pool)
    .await
    .context("cannot read the history of the epoch")?;
    let published = sqlx::query_as!(
        PublishedEpoch,
        r#"SELECT epoch, count(*) AS "shards!" FROM event_store.relay_cursors
           GROUP BY epoch ORDER BY epoch"#
    )
    .fetch_all(pool)
    .await
    .context("cannot read the cursors")?;
    let projected = sqlx::query_as!(
        ProjectedEpoch,
        r#"SELECT projection, epoch, count(*) AS "shards!" FROM read_model.checkpoints
           WHERE role = 'live' GROUP BY projection, epoch ORDER BY projection, epoch"#
    )
    .fetch_all(&databases.read)
    .await
    .context("cannot read the checkpoints")?;
    Ok(Epochs {
        epoch,
        raises,
        remedies: remedies(epoch, &published, &projected),
        published,
        projected,
    })
}

fn remedies(
    log_epoch: i32,
    published: &[PublishedEpoch],
    projected: &[ProjectedEpoch],
) -> Vec<String> {
    let mut remedies = Vec::new();
    if let Some(other) = published.iter().find(|cursors| cursors.epoch != log_epoch) {
        remedies.push(format!(
            "The published events are of epoch {}: run `command-api relay republish --from 0` into an \
             empty topic.",
            other.epoch
        ));
    }
    let others = projected.iter().filter(|of| of.epoch != log_epoch);
    let mut projections: Vec<&str> = others.map(|of| of.projection.as_str()).collect();
    projections.dedup();
    if !projections.is_empty() {
        remedies.push(format!(
            "The read tables of {} are of another epoch: run `projector rebuild --all`. Reads are \
             stale until then.",
            projections.join(", ")
        ));
    }
    remedies
}
