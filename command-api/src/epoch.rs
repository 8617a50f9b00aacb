//! Epoch of the log, and its raise after a restore that has lost events. Table
//! `event_store.log_epochs` has the history.
//!
//! A raise changes nothing but the epoch. Relay and projectors refuse cursors and checkpoints of a
//! former epoch, until a refill moves the cursors and a rebuild replaces the read tables.

use anyhow::{Context as _, bail};
use linkledger_core::{
    event_store::log::{self, PerShard},
    shard::Position,
};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

/// Request to raise the epoch of the log.
#[derive(Debug, Clone)]
pub struct Raise {
    /// Epoch that was published already; the new epoch is higher.
    pub above: i32,
    /// Operator who asks for the raise.
    pub by: String,
    /// Reason of the raise.
    pub reason: String,
    /// True if nothing is to be changed.
    pub is_dry_run: bool,
}

/// Result of a raise, or of a dry run.
#[derive(Debug, Clone)]
pub struct Raised {
    /// Epoch before the raise.
    pub former_epoch: i32,
    /// Epoch of all events that are published from now on.
    pub epoch: i32,
    /// Heads of the shards at the raise.
    pub heads: PerShard<Position>,
}

/// Earlier raise of the epoch.
#[derive(Debug, Clone)]
pub struct PastRaise {
    /// Epoch after the raise.
    pub epoch: i32,
    /// Epoch before the raise.
    pub former_epoch: i32,
    /// Time of the raise.
    pub at: OffsetDateTime,
    /// Operator who raised the epoch.
    pub by: String,
    /// Reason of the raise.
    pub reason: String,
    /// Head of each shard at the raise.
    pub heads: Vec<Position>,
}

/// Epochs of the log, of the published records and of the read tables.
#[derive(Debug, Clone)]
pub struct Epochs {
    /// Epoch of the log.
    pub epoch: i32,
    /// Raises, the latest first.
    pub raises: Vec<PastRaise>,
    /// Epochs of the relay's cursors, each with the number of shards.
    pub published: Vec<(i32, i64)>,
    /// Epochs of the live checkpoints: projection, epoch and number of shards.
    pub projected: Vec<(String, i32, i64)>,
}

/// Raises the epoch above every known epoch.
///
/// # Errors
/// Returns an error if a relay publishes, or the database does not answer.
pub async fn raise(pool: &PgPool, raise: &Raise) -> anyhow::Result<Raised> {
    let mut tx = pool.begin().await.context("cannot begin a transaction")?;
    // The lock keeps other raises out until the commit; relays acquire no lease meanwhile.
    let former_epoch = sqlx::query_scalar!("SELECT epoch FROM event_store.log_meta FOR UPDATE")
        .fetch_one(&mut *tx)
        .await
        .context("cannot lock the epoch; retry the command")?;
    let highest = highest_known(&mut tx, former_epoch).await?;
    let epoch = highest.max(raise.above) + 1;
    let heads = log::heads(&mut *tx).await;
    let heads = heads.context("cannot read the heads of the log")?;
    if !raise.is_dry_run {
        sqlx::query!("UPDATE event_store.log_meta SET epoch = $1", epoch)
            .execute(&mut *tx)
            .await
            .context("cannot raise the epoch")?;
        sqlx::query!(
            "INSERT INTO event_store.log_epochs (epoch, former_epoch, raised_by, reason, heads)
             VALUES ($1, $2, $3, $4, $5)",
            epoch,
            former_epoch,
            raise.by,
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
        former_epoch,
        epoch,
        heads,
    })
}

/// Returns the highest epoch of log, cursors and read tables, unless a relay publishes. A paused or
/// refusing relay does not publish.
async fn highest_known(tx: &mut PgConnection, log_epoch: i32) -> anyhow::Result<i32> {
    let cursors = sqlx::query!(
        r#"SELECT shard, epoch, lost_epoch, owner,
                  coalesce(lease_expires_at > now() AND refusal IS NULL, false) AS "is_published!"
           FROM event_store.relay_cursors ORDER BY shard FOR NO KEY UPDATE"#
    )
    .fetch_all(&mut *tx)
    .await
    .context("cannot lock the cursors; retry the command")?;
    if let Some(cursor) = cursors.iter().find(|cursor| cursor.is_published) {
        let owner = cursor.owner.as_deref().unwrap_or_default();
        bail!(
            "{owner} publishes shard {}: the epoch can only be raised while no relay publishes. After \
             a restore, stop every command-api; else run `command-api relay pause --reason …`. Retry \
             after a second. Nothing was changed",
            cursor.shard
        );
    }
    let published = cursors
        .iter()
        .map(|cursor| cursor.lost_epoch.max(Some(cursor.epoch)));
    let projected = sqlx::query_scalar!("SELECT max(epoch) FROM read_model.checkpoints")
        .fetch_one(tx)
        .await
        .context("cannot read the checkpoints")?;
    let known = published.chain([projected]).flatten();
    Ok(known.fold(log_epoch, i32::max))
}

/// Reads the epochs of the log, of the published records and of the read tables.
///
/// # Errors
/// Returns an error if the database does not answer.
pub async fn read(pool: &PgPool) -> anyhow::Result<Epochs> {
    let epoch = log::epoch(pool).await;
    let raises = sqlx::query_as!(
        PastRaise,
        "SELECT epoch, former_epoch, raised_at AS at, raised_by AS by, reason, heads
         FROM event_store.log_epochs ORDER BY epoch DESC"
    )
    .fetch_all(pool);
    let published = sqlx::query!(
        r#"SELECT epoch, count(*) AS "shards!" FROM event_store.relay_cursors
           GROUP BY epoch ORDER BY epoch"#
    )
    .fetch_all(pool);
    let projected = sqlx::query!(
        r#"SELECT projection, epoch, count(*) AS "shards!" FROM read_model.checkpoints
           WHERE role = 'live' GROUP BY projection, epoch ORDER BY projection, epoch"#
    )
    .fetch_all(pool);
    let published = published.await.context("cannot read the cursors")?;
    let projected = projected.await.context("cannot read the checkpoints")?;
    Ok(Epochs {
        epoch: epoch.context("cannot read the epoch of the log")?,
        raises: raises
            .await
            .context("cannot read the history of the epoch")?,
        published: published
            .iter()
            .map(|row| (row.epoch, row.shards))
            .collect(),
        projected: projected
            .into_iter()
            .map(|row| (row.projection, row.epoch, row.shards))
            .collect(),
    })
}

impl Epochs {
    /// Returns a remedy for each cursor and read table of another epoch.
    pub fn remedies(&self) -> Vec<String> {
        let mut remedies = Vec::new();
        let is_other = |epoch: &i32| *epoch != self.epoch;
        if let Some((epoch, _)) = self.published.iter().find(|(epoch, _)| is_other(epoch)) {
            remedies.push(format!(
                "The published events are of epoch {epoch}: run `command-api relay refill --from 0` \
                 into an empty topic."
            ));
        }
        let mut projections: Vec<&str> = Vec::new();
        for (projection, epoch, _) in &self.projected {
            if is_other(epoch) && !projections.contains(&projection.as_str()) {
                projections.push(projection);
            }
        }
        if !projections.is_empty() {
            remedies.push(format!(
                "The read tables of {} are of another epoch: run `projector rebuild --all`. Reads \
                 are stale until then.",
                projections.join(", ")
            ));
        }
        remedies
    }
}
