//! Statements on all checkpoints of a generation at once, for rebuild and swap.

use linkledger_core::{
    projection::Projection,
    shard::{Position, Shard},
};
use linkledger_event_store::log::PerShard;
use sqlx::{PgConnection, PgExecutor};

use super::Role;

/// Checkpoints of a generation in all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationProgress {
    /// Epoch of the log that the positions belong to.
    pub epoch: i32,
    /// Position in each shard.
    pub positions: PerShard<Position>,
    /// True for each shard in which an account is parked.
    pub has_parked: PerShard<bool>,
}

/// Loads the checkpoints of a generation; `None` unless every shard has a checkpoint with the given
/// role, and all of the same epoch.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn generation_progress(
    executor: impl PgExecutor<'_>,
    projection: Projection,
    generation: i32,
    role: Role,
) -> sqlx::Result<Option<GenerationProgress>> {
    let rows = sqlx::query!(
        r#"
        SELECT c.shard, c.epoch, c.position, EXISTS (
            SELECT FROM read_model.parked_accounts AS p
            WHERE p.shard = c.shard AND p.projection = c.projection
              AND p.generation = c.generation
        ) AS "has_parked!"
        FROM read_model.checkpoints AS c
        WHERE c.projection = $1 AND c.generation = $2 AND c.role = $3
        "#,
        projection.name(),
        generation,
        role.name()
    )
    .fetch_all(executor)
    .await?;
    let Some(epoch) = rows.first().map(|row| row.epoch) else {
        return Ok(None);
    };
    let mut generation_progress = GenerationProgress {
        epoch,
        positions: PerShard::default(),
        has_parked: PerShard::default(),
    };
    let mut count = 0;
    for row in rows.iter().filter(|row| row.epoch == epoch) {
        if let Some(shard) = Shard::new(row.shard.into()) {
            generation_progress.positions[shard.index()] = row.position;
            generation_progress.has_parked[shard.index()] = row.has_parked;
            count += 1;
        }
    }
    Ok((count == Shard::all().count()).then_some(generation_progress))
}

/// Locks the checkpoints of a generation until the end of the transaction.
///
/// # Errors
/// Returns an error if the database fails, or a lock is not acquired before the timeout
/// (SQLSTATE 55P03).
pub async fn lock_in_tx(
    tx: &mut PgConnection,
    projection: Projection,
    generation: i32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        SELECT position FROM read_model.checkpoints
        WHERE projection = $1 AND generation = $2
        ORDER BY shard
        FOR UPDATE
        ",
        projection.name(),
        generation
    )
    .fetch_all(tx)
    .await?;
    Ok(())
}

/// Exchanges two generations: `live` becomes standby, and `next` becomes live, and paused if `live`
/// was paused. Returns the number of changed checkpoints.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn exchange_in_tx(
    tx: &mut PgConnection,
    projection: Projection,
    live: i32,
    next: i32,
) -> sqlx::Result<u64> {
    let result = sqlx::query!(
        "
        UPDATE read_model.checkpoints AS c
        SET role = CASE c.generation WHEN $2 THEN 'standby' ELSE 'live' END,
            paused_at = CASE c.generation WHEN $2 THEN NULL ELSE was_live.paused_at END
        FROM read_model.checkpoints AS was_live
        WHERE c.projection = $1 AND c.generation IN ($2, $3)
          AND was_live.projection = $1 AND was_live.generation = $2
          AND was_live.role = 'live' AND was_live.shard = c.shard
        ",
        projection.name(),
        live,
        next
    )
    .execute(tx)
    .await?;
    Ok(result.rows_affected())
}
