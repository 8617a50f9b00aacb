//! Table `read_model.checkpoints`: the position of each projection in each shard.
//!
//! Only this table decides which events are applied. Every transaction locks the row of the
//! checkpoint before it writes a row of a read model, and keeps the lock until the commit.

pub mod generation;
pub mod pause;

use std::collections::BTreeSet;

use linkledger_core::{
    projection::Projection,
    shard::{Position, Shard},
};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::pipeline::{apply::ApplyConflict, parking::ParkedAccount};

linkledger_core::named_enum! {
    /// Role of a generation of a read model, by its name in SQL.
    pub enum Role {
        /// A rebuild writes the generation; no reader uses it.
        Building = "building",
        /// The projector writes the generation, and query-api reads it.
        Live = "live",
        /// The generation was live, and a rollback can make it live again.
        Standby = "standby",
    }
}

/// Position of one generation of a projection in one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Generation of the read model.
    pub generation: i32,
    /// Epoch of the log that `position` belongs to.
    pub epoch: i32,
    /// Position up to which all events are in the read model.
    pub position: Position,
}

/// Stored checkpoint of a live generation.
#[derive(Debug, Clone, Copy)]
pub struct LiveCheckpoint {
    /// Projection of the checkpoint.
    pub projection: Projection,
    /// Shard of the checkpoint.
    pub shard: Shard,
    /// Generation, epoch and position.
    pub checkpoint: Checkpoint,
    /// Identity of the log that the read tables follow; `None` before `migrate` has stored the id.
    pub log_id: Option<Uuid>,
    /// True if the projection is paused.
    pub is_paused: bool,
    /// Number of accounts parked in the shard, counted up to [`PARKED_COUNTED_MAX`].
    pub parked_accounts: u32,
    /// True if an event above the checkpoint is skipped.
    pub has_skipped: bool,
}

/// Maximum number of parked accounts that are counted in a shard.
pub const PARKED_COUNTED_MAX: i64 = 1_000;

/// Advance of a checkpoint from an expected state to a later position.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointAdvance {
    /// Projection of the checkpoint.
    pub projection: Projection,
    /// Shard of the checkpoint.
    pub shard: Shard,
    /// Expected state of the stored checkpoint.
    pub from: Checkpoint,
    /// New position.
    pub to: Position,
}

/// Loads the live checkpoints of the given shards.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn load_live(pool: &PgPool, shards: &[Shard]) -> sqlx::Result<Vec<LiveCheckpoint>> {
    let numbers: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
    // One statement reads checkpoints and parked accounts in one snapshot, because a transaction
    // that parks an account also advances the checkpoint.
    let rows = sqlx::query!(
        r#"
        SELECT c.projection, c.generation, c.shard, c.epoch, c.position,
               (SELECT log_id FROM read_model.followed_log WHERE singleton) AS log_id,
               c.paused_at IS NOT NULL AS "is_paused!", EXISTS (
            SELECT FROM read_model.skipped_events AS s
            WHERE s.projection = c.projection AND s.shard = c.shard AND s.position > c.position
        ) AS "has_skipped!", (
            SELECT count(*) FROM (
                SELECT FROM read_model.parked_accounts AS p
                WHERE p.shard = c.shard AND p.projection = c.projection
                  AND p.generation = c.generation
                LIMIT $2
            ) AS parked
        ) AS "parked_accounts!"
        FROM read_model.checkpoints AS c
        WHERE c.role = 'live' AND c.shard = ANY($1)
        "#,
        &numbers,
        PARKED_COUNTED_MAX
    )
    .fetch_all(pool)
    .await?;
    let checkpoints = rows.into_iter().filter_map(|row| {
        let shard = Shard::new(row.shard.into())?;
        let projection = Projection::of_name(&row.projection)?;
        let checkpoint = Checkpoint {
            generation: row.generation,
            epoch: row.epoch,
            position: row.position,
        };
        Some(LiveCheckpoint {
            projection,
            shard,
            checkpoint,
            log_id: row.log_id,
            is_paused: row.is_paused,
            has_skipped: row.has_skipped,
            parked_accounts: u32::try_from(row.parked_accounts).ok()?,
        })
    });
    Ok(checkpoints.collect())
}

/// Locks the checkpoints that are in the expected state until the end of the transaction, in the order of their keys,
/// and advances them. After a conflict the transaction must not be committed.
///
/// # Errors
/// Returns an error if the database fails, or a lock is not acquired before the timeout
/// (SQLSTATE 55P03).
pub async fn advance_in_tx(
    tx: &mut PgConnection,
    advances: &[CheckpointAdvance],
    role: Role,
) -> sqlx::Result<Result<(), ApplyConflict>> {
    let projections: Vec<&str> = advances.iter().map(|it| it.projection.name()).collect();
    let generations: Vec<i32> = advances.iter().map(|it| it.from.generation).collect();
    let shards: Vec<i16> = advances.iter().map(|it| it.shard.number()).collect();
    let epochs: Vec<i32> = advances.iter().map(|it| it.from.epoch).collect();
    let from: Vec<Position> = advances.iter().map(|it| it.from.position).collect();
    let to: Vec<Position> = advances.iter().map(|it| it.to).collect();
    let rows = sqlx::query!(
        r#"
        WITH locked AS (
            SELECT c.projection, c.generation, c.shard, expected.target,
                   (c.role = 'live' AND c.paused_at IS NOT NULL) AS is_paused
            FROM unnest($1::text[], $2::integer[], $3::smallint[], $4::integer[], $5::bigint[],
                        $6::bigint[])
                AS expected (projection, generation, shard, epoch, position, target)
            JOIN read_model.checkpoints AS c USING (projection, generation, shard, epoch, position)
            WHERE c.role = $7
            ORDER BY c.projection, c.generation, c.shard
            FOR UPDATE OF c
        )
        UPDATE read_model.checkpoints AS c SET position = locked.target
        FROM locked
        WHERE c.projection = locked.projection AND c.generation = locked.generation
          AND c.shard = locked.shard
        RETURNING c.projection, c.shard, locked.is_paused AS "is_paused!"
        "#,
        &projections as &[&str],
        &generations,
        &shards,
        &epochs,
        &from,
        &to,
        role.name()
    )
    .fetch_all(tx)
    .await?;
    let is_advanced = |advance: &&CheckpointAdvance| {
        rows.iter().any(|row| {
            row.projection == advance.projection.name() && row.shard == advance.shard.number()
        })
    };
    let moved = advances.iter().filter(|advance| !is_advanced(advance));
    let moved: BTreeSet<Shard> = moved.map(|advance| advance.shard).collect();
    Ok(if !moved.is_empty() {
        Err(ApplyConflict::CheckpointMoved(moved))
    } else if rows.iter().any(|row| row.is_paused) {
        Err(ApplyConflict::ProjectionPaused)
    } else {
        Ok(())
    })
}

/// Locks the checkpoint of the account's shard and generation, if the generation has the given
/// role.
///
/// # Errors
/// Returns an error if the database fails, or a lock is not acquired before the timeout
/// (SQLSTATE 55P03).
pub async fn lock_of_in_tx(
    tx: &mut PgConnection,
    account: ParkedAccount,
    role: Role,
) -> sqlx::Result<Result<(), ApplyConflict>> {
    let is_paused = sqlx::query_scalar!(
        r#"
        SELECT paused_at IS NOT NULL AS "is_paused!" FROM read_model.checkpoints
        WHERE projection = $1 AND generation = $2 AND shard = $3 AND role = $4
        FOR UPDATE
        "#,
        account.projection.name(),
        account.generation,
        account.shard.number(),
        role.name()
    )
    .fetch_optional(tx)
    .await?;
    Ok(match is_paused {
        Some(false) => Ok(()),
        Some(true) => Err(ApplyConflict::ProjectionPaused),
        None => Err(ApplyConflict::CheckpointMoved([account.shard].into())),
    })
}
