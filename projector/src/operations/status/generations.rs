//! The generations of the read models: what each is for, how far it is, and whether it may go.

use linkledger_core::{event_store::log::LogEnd, shard::Position, timestamp};
use serde::Serialize;
use sqlx::PgPool;

/// One generation of a read model.
#[derive(Debug, Clone, Serialize)]
pub struct GenerationStatus {
    /// Whose.
    pub projection: String,
    /// Its number.
    pub generation: i32,
    /// What is being done with it: `loading`, `catching_up`, `comparing`, `ready`, `active`,
    /// `standby` or `dropping`.
    pub phase: String,
    /// Events applied in all shards.
    pub position: Position,
    /// Events of the log.
    pub head: Position,
    /// When it was begun.
    pub created_at: String,
    /// When it was found to say what it should.
    pub compared_at: Option<String>,
    /// When it ceased to be read.
    pub last_active_at: Option<String>,
    /// Whether `projector drop` would do so: nobody reads it, and no command is at work on it.
    pub may_be_dropped: bool,
    /// Whether `projector rollback` would go back to it.
    pub is_next_for_rollback: bool,
}

impl GenerationStatus {
    /// Whether it is the one that answers come from.
    pub fn is_read(&self) -> bool {
        self.phase == "active"
    }
}

/// All of them, by projection and generation.
pub(super) async fn read(pool: &PgPool, end: &LogEnd) -> sqlx::Result<Vec<GenerationStatus>> {
    let rows = sqlx::query!(
        r#"
        SELECT g.projection, g.generation, g.phase, g.created_at, g.compared_at, g.last_active_at,
               coalesce((
                   SELECT sum(position)::bigint FROM read_model.checkpoints AS c
                   WHERE c.projection = g.projection AND c.generation = g.generation
               ), 0) AS "position!",
               coalesce((
                   SELECT min(epoch) FROM read_model.checkpoints AS c
                   WHERE c.projection = g.projection AND c.generation = g.generation
               ) = $1 AND g.phase = 'standby' AND NOT EXISTS (
                   SELECT FROM read_model.generations AS later
                   WHERE later.projection = g.projection AND later.phase = 'standby'
                     AND (coalesce(later.last_active_at, '-infinity'), later.generation)
                         > (coalesce(g.last_active_at, '-infinity'), g.generation)
               ), false) AS "is_next_for_rollback!",
               g.phase <> 'active'
                   AND coalesce(g.last_active_at < now() - interval '60 seconds', true)
                   AND NOT EXISTS (
                       SELECT FROM read_model.operations AS o
                       WHERE o.projection = g.projection AND o.finished_at IS NULL
                         AND o.lease_expires_at > clock_timestamp()
                   ) AS "may_be_dropped!"
        FROM read_model.generations AS g
        ORDER BY g.projection, g.generation
        "#,
        end.epoch
    )
    .fetch_all(pool)
    .await?;
    let generations = rows.into_iter().map(|row| GenerationStatus {
        projection: row.projection,
        generation: row.generation,
        phase: row.phase,
        position: row.position,
        head: end.heads.iter().sum(),
        created_at: timestamp::format(row.created_at),
        compared_at: row.compared_at.map(timestamp::format),
        last_active_at: row.last_active_at.map(timestamp::format),
        may_be_dropped: row.may_be_dropped,
        is_next_for_rollback: row.is_next_for_rollback,
    });
    Ok(generations.collect())
}
