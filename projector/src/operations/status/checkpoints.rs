//! Live checkpoints, with the number of parked accounts and the owner of the shard.

use linkledger_core::{
    event_store::log::ReadFrom,
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;

use super::projection::LastError;
use crate::{pipeline::checkpoint::PARKED_COUNTED_MAX, read_models::Projection};

/// Checkpoint of a projection in a shard.
#[derive(Debug, Clone)]
pub(super) struct StoredCheckpoint {
    pub(super) projection: Projection,
    pub(super) active_generation: i32,
    pub(super) shard: Shard,
    pub(super) epoch: i32,
    pub(super) position: Position,
    pub(super) paused_at: Option<OffsetDateTime>,
    pub(super) parked_accounts: u32,
    /// Projector that claimed the shard last.
    pub(super) owner: Option<String>,
    /// Release of the projector.
    pub(super) version: Option<String>,
    /// Age of the last renewal of the claim.
    pub(super) renewed_seconds_ago: Option<f64>,
    /// Events applied per second, between the last renewals.
    pub(super) events_per_second: Option<f64>,
    /// Last reported failure.
    pub(super) last_error: Option<LastError>,
}

impl StoredCheckpoint {
    pub(super) const fn place(&self) -> ReadFrom {
        ReadFrom {
            shard: self.shard,
            after: self.position,
        }
    }
}

/// Reads the live checkpoints, by projection and shard.
pub(super) async fn read(pool: &PgPool) -> sqlx::Result<Vec<StoredCheckpoint>> {
    let rows = sqlx::query!(
        r#"
        SELECT c.projection, p.active_generation, c.shard, c.epoch, c.position, c.paused_at, (
                   SELECT count(*) FROM (
                       SELECT FROM read_model.parked_accounts AS a
                       WHERE a.shard = c.shard AND a.projection = c.projection
                         AND a.generation = c.generation
                       LIMIT $1
                   ) AS parked
               ) AS "parked_accounts!",
               claim.owner AS "owner?", claim.version AS "version?",
               extract(epoch FROM now() - claim.renewed_at)::float8 AS "renewed_seconds_ago?",
               (claim.events_per_second->>c.projection)::float8 AS "events_per_second?",
               claim.last_error AS "last_error?",
               extract(epoch FROM now() - claim.last_error_at)::float8 AS "last_error_seconds_ago?"
        FROM read_model.checkpoints AS c
        JOIN read_model.projections AS p USING (projection)
        LEFT JOIN read_model.claims AS claim USING (shard)
        WHERE c.role = 'live'
        ORDER BY c.projection, c.shard
        "#,
        PARKED_COUNTED_MAX
    )
    .fetch_all(pool)
    .await?;
    // Rows of a projection that only a later release knows are ignored.
    let known = rows.into_iter().filter_map(|row| {
        let last_error = row.last_error.zip(row.last_error_seconds_ago);
        Some(StoredCheckpoint {
            projection: Projection::named(&row.projection)?,
            active_generation: row.active_generation,
            shard: Shard::new(row.shard.into())?,
            epoch: row.epoch,
            position: row.position,
            paused_at: row.paused_at,
            parked_accounts: u32::try_from(row.parked_accounts).ok()?,
            owner: row.owner,
            version: row.version,
            renewed_seconds_ago: row.renewed_seconds_ago,
            events_per_second: row.events_per_second,
            last_error: last_error.map(|(text, seconds_ago)| LastError { seconds_ago, text }),
        })
    });
    Ok(known.collect())
}
