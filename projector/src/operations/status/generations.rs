//! Generations of the read models: phase, progress, and possible commands.

use linkledger_core::{shard::Position, timestamp};
use linkledger_event_store::log::LogEnd;
use serde::Serialize;
use sqlx::PgPool;
use utoipa::ToSchema;

use crate::operations::audit::RecordedCommand;

/// Generation of a read model.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct GenerationStatus {
    /// Name of the projection.
    pub projection: String,
    /// Number of the generation.
    pub generation: i32,
    /// Phase: `loading`, `catching_up`, `comparing`, `ready`, `active`, `standby`
    /// or `dropping`.
    pub phase: String,
    /// Number of applied events in all shards.
    #[schema(value_type = i64)]
    pub position: Position,
    /// Number of events in the log.
    #[schema(value_type = i64)]
    pub head: Position,
    /// Start of the rebuild.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Time of the successful comparison.
    #[schema(format = DateTime)]
    pub compared_at: Option<String>,
    /// End of the time as live generation.
    #[schema(format = DateTime)]
    pub last_active_at: Option<String>,
    /// True if `projector drop` would drop the generation: no query reads the
    /// generation, and no command works on the projection.
    pub may_be_dropped: bool,
    /// True if `projector rollback` would serve the generation.
    pub is_next_for_rollback: bool,
}

impl GenerationStatus {
    /// Returns true if queries read this generation.
    pub fn is_read(&self) -> bool {
        self.phase == "active"
    }
}

/// Reads every generation, by projection and number.
pub(super) async fn read(
    pool: &PgPool,
    end: &LogEnd,
    running: &[RecordedCommand],
) -> sqlx::Result<Vec<GenerationStatus>> {
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
                   AND coalesce(g.last_active_at < now() - interval '60 seconds', true) AS "is_unread!"
        FROM read_model.generations AS g
        ORDER BY g.projection, g.generation
        "#,
        end.epoch
    )
    .fetch_all(pool)
    .await?;
    let is_worked_on = |name: &str| {
        running
            .iter()
            .any(|it| it.is_running && it.projection.as_deref() == Some(name))
    };
    let generations = rows.into_iter().map(|row| GenerationStatus {
        may_be_dropped: row.is_unread && !is_worked_on(&row.projection),
        projection: row.projection,
        generation: row.generation,
        phase: row.phase,
        position: row.position,
        head: end.heads.iter().sum(),
        created_at: timestamp::format(row.created_at),
        compared_at: row.compared_at.map(timestamp::format),
        last_active_at: row.last_active_at.map(timestamp::format),
        is_next_for_rollback: row.is_next_for_rollback,
    });
    Ok(generations.collect())
}
