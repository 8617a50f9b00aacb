//! One moment of the database: a shard's checkpoint together with the rows that it speaks of.

use anyhow::{Context as _, ensure};
use linkledger_core::{
    event_store::log::PerShard,
    shard::{Position, Shard},
};
use serde::Serialize;
use sqlx::{PgPool, Postgres, Transaction};

use super::tables::Target;

/// A stretch of a shard's log whose rows are compared at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bucket {
    /// The place of its first event.
    pub first: Position,
    /// The place of its last event.
    pub last: Position,
}

/// All that is read in it is of one moment. Dropped or ended soon: rows that die meanwhile can't be
/// pruned.
const BEGIN: &str = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A transaction that sees one moment.
pub(crate) async fn begin(pool: &PgPool) -> anyhow::Result<Transaction<'static, Postgres>> {
    let snapshot = pool.begin_with(BEGIN).await;
    snapshot.context("can't begin a snapshot")
}

/// One shard of a generation at one moment.
pub(crate) struct Snapshot {
    pub(crate) tx: Transaction<'static, Postgres>,
    pub(crate) target: Target,
    pub(crate) shard: Shard,
    /// Everything up to it is in the rows, but for what waits.
    pub(crate) checkpoint: Position,
    /// Whether the rows are served.
    pub(crate) is_live: bool,
}

impl Snapshot {
    pub(crate) async fn begin(pool: &PgPool, target: Target, shard: Shard) -> anyhow::Result<Self> {
        Self::of(begin(pool).await?, target, shard).await
    }

    /// One to write in: under the lock of the checkpoint nothing changes that it speaks of.
    pub(crate) async fn lock(pool: &PgPool, target: Target, shard: Shard) -> anyhow::Result<Self> {
        let mut tx = pool.begin().await.context("can't begin a transaction")?;
        sqlx::query!(
            "
            SELECT position FROM read_model.checkpoints
            WHERE projection = $1 AND generation = $2 AND shard = $3
            FOR UPDATE
            ",
            target.projection.name(),
            target.generation,
            shard.number()
        )
        .fetch_optional(&mut *tx)
        .await
        .context("can't lock the checkpoint")?;
        Self::of(tx, target, shard).await
    }

    async fn of(
        mut tx: Transaction<'static, Postgres>,
        target: Target,
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
        .context("can't read the checkpoint")?;
        let row = row.with_context(|| {
            let (projection, generation) = (target.projection, target.generation);
            format!("there is no generation {generation} of `{projection}`")
        })?;
        ensure!(
            row.epoch == row.log_epoch,
            "its checkpoint is of epoch {}, the log of epoch {}: rebuild the projection",
            row.epoch,
            row.log_epoch
        );
        ensure!(
            row.position <= row.head,
            "its checkpoint is at position {}, beyond the log's end at {}: the log has lost events, \
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

    /// How many events there are in a bucket.
    ///
    /// # Errors
    /// When the log lacks one: nothing can be said of rows then.
    pub(crate) async fn count_events(&mut self, bucket: Bucket) -> anyhow::Result<u64> {
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
        .context("can't read the log")?;
        ensure!(
            events == bucket.last - bucket.first + 1,
            "the log has {events} events at positions {} to {}; see `command-api log verify`",
            bucket.first,
            bucket.last
        );
        Ok(events.unsigned_abs())
    }
}

/// The checkpoints of a generation; 0 where there is none.
pub(crate) async fn checkpoints(
    pool: &PgPool,
    target: Target,
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
    .context("can't read checkpoints")?;
    let mut positions = PerShard::default();
    for row in rows {
        if let Some(shard) = Shard::new(row.shard.into()) {
            positions[shard.index()] = row.position;
        }
    }
    Ok(positions)
}
