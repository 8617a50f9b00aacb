//! Snapshot of the database: the checkpoint of a shard together with the rows up to that checkpoint.

use anyhow::{Context as _, ensure};
use linkledger_core::{
    event_store::log::PerShard,
    shard::{Position, Shard},
};
use serde::Serialize;
use sqlx::{PgPool, Postgres, Transaction};

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

/// Begins a transaction that reads one snapshot.
pub(crate) async fn begin(pool: &PgPool) -> anyhow::Result<Transaction<'static, Postgres>> {
    let snapshot = pool.begin_with(BEGIN).await;
    snapshot.context("cannot begin a snapshot")
}

/// Snapshot of one shard of a generation.
pub(crate) struct ShardSnapshot {
    pub(crate) tx: Transaction<'static, Postgres>,
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
        pool: &PgPool,
        target: GenerationTarget,
        shard: Shard,
    ) -> anyhow::Result<Self> {
        Self::of(begin(pool).await?, target, shard).await
    }

    /// Begins a transaction for writing, which locks the checkpoint: nobody else changes the rows of the
    /// shard before its end. Refuses a paused projection: no process writes its served generation.
    pub(crate) async fn lock(
        pool: &PgPool,
        target: GenerationTarget,
        shard: Shard,
    ) -> anyhow::Result<Self> {
        let mut tx = pool.begin().await.context("cannot begin a transaction")?;
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
        Self::of(tx, target, shard).await
    }

    async fn of(
        mut tx: Transaction<'static, Postgres>,
        target: GenerationTarget,
        shard: Shard,
    ) -> anyhow::Result<Self> {
        let row = sqlx::query!(
            "
            SELECT c.epoch, c.position, c.role, l.head, m.epoch AS log_epoch
            FROM read_model.checkpoints AS c
            JOIN event_store.log_shards AS l USING (shard)
            CROSS JOIN event_store.log_meta AS m
            WHERE c.projection = $1 AND c.generation = $2 AND c.shard = $3
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
        ensure!(
            row.epoch == row.log_epoch,
            "the checkpoint is of epoch {}, the log of epoch {}: rebuild the projection",
            row.epoch,
            row.log_epoch
        );
        ensure!(
            row.position <= row.head,
            "the checkpoint is at position {}, beyond the log's end at {}: the log has lost events, \
             or was restored",
            row.position,
            row.head
        );
        Ok(Self {
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
    pub(crate) async fn count_events(&mut self, bucket: LogBucket) -> anyhow::Result<u64> {
        let events = sqlx::query_scalar!(
            r#"
            SELECT count(*) AS "events!" FROM event_store.events
            WHERE shard = $1 AND position BETWEEN $2 AND $3
            "#,
            self.shard.number(),
            bucket.first,
            bucket.last
        )
        .fetch_one(&mut *self.tx)
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
    pool: &PgPool,
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
    .fetch_all(pool)
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
