//! Snapshot of the database: the checkpoint of a shard together with the rows up to that checkpoint.

use anyhow::{Context as _, ensure};
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::{
    log::{self, PerShard},
    transaction::PoolTransaction,
};
use linkledger_service::{databases::Databases, log_identity};
use serde::Serialize;
use sqlx::{PgExecutor, PgPool};

use crate::read_models::{Projection, redirects::RedirectChanges};

/// Generation of a read model.
#[derive(Debug, Clone, Copy)]
pub struct GenerationTarget {
    /// Read model.
    pub projection: Projection,
    /// Number of the generation, served or not: each has its own checkpoints.
    pub generation: i32,
}

/// Stretch of a shard's log whose rows are compared together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LogBucket {
    /// Position of the first event.
    pub first: Position,
    /// Position of the last event.
    pub last: Position,
}

/// Begins a transaction whose statements read one snapshot. The transaction must end soon: Postgres
/// cannot prune rows that are updated meanwhile. On a busy host this process may get no processor time
/// for longer than sessions of services may be idle, one second: a reader holds no locks and may be.
const BEGIN: &str = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                     SET LOCAL idle_in_transaction_session_timeout = '30s'";

/// Begins a transaction that locks checkpoints, and is idle while the log is read in another session, by one or
/// two statements of at most five seconds each; a frozen process must not hold the locks for long. The commit waits for the disk: rows behind a checkpoint that stays are not written again
/// after a crash of Postgres.
const BEGIN_LOCKING: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '7s'; \
                             SET LOCAL synchronous_commit = on";

/// Begins a transaction that locks checkpoints.
pub(super) async fn begin_locking(pool: &PgPool) -> anyhow::Result<PoolTransaction> {
    let tx = PoolTransaction::begin_with(pool, BEGIN_LOCKING).await;
    tx.context("cannot begin a transaction")
}

/// Begins a transaction that reads one snapshot.
pub(crate) async fn begin(pool: &PgPool) -> anyhow::Result<PoolTransaction> {
    let snapshot = PoolTransaction::begin_with(pool, BEGIN).await;
    snapshot.context("cannot begin a snapshot")
}

/// Snapshot of one shard of a generation.
pub(crate) struct ShardSnapshot {
    /// Sessions with the log, which only grows: what is read is cut off at the checkpoint.
    pub(crate) log: PgPool,
    /// Snapshot of the read tables.
    pub(crate) tx: PoolTransaction,
    pub(crate) target: GenerationTarget,
    pub(crate) shard: Shard,
    /// Position of the checkpoint: the rows hold all events up to here but the waiting ones.
    pub(crate) checkpoint: Position,
    /// True if the generation is served.
    pub(crate) is_live: bool,
}

impl ShardSnapshot {
    /// Begins a snapshot for reading.
    pub(crate) async fn begin(
        databases: &Databases,
        target: GenerationTarget,
        shard: Shard,
    ) -> anyhow::Result<Self> {
        let tx = begin(&databases.read).await?;
        Self::of(databases, tx, target, shard).await
    }

    /// Begins a transaction for writing, which locks the checkpoint: nobody else changes the rows of the
    /// shard before its end. Refuses a paused projection: no process writes its served generation.
    pub(crate) async fn lock(
        databases: &Databases,
        target: GenerationTarget,
        shard: Shard,
    ) -> anyhow::Result<Self> {
        let mut tx = begin_locking(&databases.read).await?;
        let is_paused = sqlx::query_scalar!(
            r#"
            SELECT (role = 'live' AND paused_at IS NOT NULL) AS "is_paused!"
            FROM read_model.checkpoints
            WHERE projection = $1 AND generation = $2 AND shard = $3
            FOR UPDATE
            "#,
            target.projection.name(),
            target.generation,
            shard.number()
        )
        .fetch_optional(&mut *tx)
        .await
        .context("cannot lock the checkpoint")?;
        ensure_not_paused(target.projection, is_paused == Some(true))?;
        Self::of(databases, tx, target, shard).await
    }

    async fn of(
        databases: &Databases,
        mut tx: PoolTransaction,
        target: GenerationTarget,
        shard: Shard,
    ) -> anyhow::Result<Self> {
        let row = sqlx::query!(
            "
            SELECT epoch, position, role,
                   (SELECT log_id FROM read_model.followed_log WHERE singleton) AS log_id
            FROM read_model.checkpoints
            WHERE projection = $1 AND generation = $2 AND shard = $3
            ",
            target.projection.name(),
            target.generation,
            shard.number()
        )
        .fetch_optional(&mut *tx)
        .await
        .context("cannot read the checkpoint")?;
        let row = row.with_context(|| {
            let (projection, generation) = (target.projection, target.generation);
            format!("there is no generation {generation} of `{projection}`")
        })?;
        // Read after the checkpoint: heads only grow.
        let end = log::end(&databases.log).await;
        let end = end.context("cannot read the end of the log")?;
        log_identity::compare(end.log_id, row.log_id)?;
        let head = end.heads[shard.index()];
        ensure!(
            row.epoch == end.epoch,
            "the checkpoint is of epoch {}, the log of epoch {}: rebuild the projection",
            row.epoch,
            end.epoch
        );
        ensure!(
            row.position <= head,
            "the checkpoint is at position {}, beyond the log's end at {}: the log has lost events, \
             or was restored",
            row.position,
            head
        );
        Ok(Self {
            log: databases.log.clone(),
            tx,
            target,
            shard,
            checkpoint: row.position,
            is_live: row.role == "live",
        })
    }

    /// Appends the redirect changes if the generation is served, and commits.
    pub(crate) async fn commit(mut self, changes: &RedirectChanges) -> sqlx::Result<()> {
        if self.is_live {
            changes.append_in_tx(&mut self.tx).await?;
        }
        self.tx.commit().await
    }

    /// Returns the number of events in a bucket.
    ///
    /// # Errors
    /// Returns an error if the log lacks an event: its rows cannot be verified then.
    pub(crate) async fn count_events(&self, bucket: LogBucket) -> anyhow::Result<u64> {
        let events = sqlx::query_scalar!(
            r#"
            SELECT count(*) AS "events!" FROM event_store.events
            WHERE shard = $1 AND position BETWEEN $2 AND $3
            "#,
            self.shard.number(),
            bucket.first,
            bucket.last
        )
        .fetch_one(&self.log)
        .await
        .context("cannot read the log")?;
        ensure!(
            events == bucket.last - bucket.first + 1,
            "the log has {events} events at positions {} to {}; see `command-api log verify`",
            bucket.first,
            bucket.last
        );
        Ok(events.unsigned_abs())
    }
}

/// Returns an error if an operator has paused the served generation.
pub(super) fn ensure_not_paused(projection: Projection, is_paused: bool) -> anyhow::Result<()> {
    ensure!(
        !is_paused,
        "`{projection}` is paused; run `projector resume {projection}` first"
    );
    Ok(())
}

/// Returns the positions of the checkpoints of a generation; 0 where there is no checkpoint.
pub(crate) async fn checkpoints(
    executor: impl PgExecutor<'_>,
    target: GenerationTarget,
) -> anyhow::Result<PerShard<Position>> {
    let rows = sqlx::query!(
        "
        SELECT shard, position FROM read_model.checkpoints
        WHERE projection = $1 AND generation = $2
        ",
        target.projection.name(),
        target.generation
    )
    .fetch_all(executor)
    .await
    .context("cannot read checkpoints")?;
    let mut positions = PerShard::default();
    for row in rows {
        if let Some(shard) = Shard::new(row.shard.into()) {
            positions[shard.index()] = row.position;
        }
    }
    Ok(positions)
}
