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

use crate::pipeline::parking::ParkedAccount;

/// Role of a generation of a read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A rebuild writes the generation; no reader uses it.
    Building,
    /// The projector writes the generation, and query-api reads it.
    Live,
    /// The generation was live, and a rollback can make it live again.
    Standby,
}

impl Role {
    /// Returns the name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Live => "live",
            Self::Standby => "standby",
        }
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
        let projection = Projection::named(&row.projection)?;
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

/// Outcome of an attempt to lock checkpoints.
#[derive(Debug)]
pub enum CheckpointLock {
    /// All checkpoints are in the expected state, and locked until the end of the transaction.
    Locked,
    /// Checkpoints of these shards are not in the expected state.
    Moved(BTreeSet<Shard>),
    /// An operator has paused one of the projections.
    Paused,
}

/// Locks the checkpoints that advance, if they are in the expected state.
///
/// # Errors
/// Returns an error if the database fails, or a lock is not acquired before the timeout
/// (SQLSTATE 55P03).
pub async fn lock_in_tx(
    tx: &mut PgConnection,
    advances: &[CheckpointAdvance],
    role: Role,
) -> sqlx::Result<CheckpointLock> {
    let columns = Columns::of(advances);
    let rows = sqlx::query!(
        r#"
        SELECT c.projection, c.shard,
               (c.role = 'live' AND c.paused_at IS NOT NULL) AS "is_paused!"
        FROM unnest($1::text[], $2::integer[], $3::smallint[], $4::integer[], $5::bigint[])
            AS expected (projection, generation, shard, epoch, position)
        JOIN read_model.checkpoints AS c USING (projection, generation, shard, epoch, position)
        WHERE c.role = $6
        ORDER BY c.projection, c.generation, c.shard
        FOR UPDATE OF c
        "#,
        &columns.projections as &[&str],
        &columns.generations,
        &columns.shards,
        &columns.epochs,
        &columns.from,
        role.name()
    )
    .fetch_all(tx)
    .await?;
    let is_locked = |advance: &&CheckpointAdvance| {
        rows.iter().any(|row| {
            row.projection == advance.projection.name() && row.shard == advance.shard.number()
        })
    };
    let moved = advances.iter().filter(|advance| !is_locked(advance));
    let moved: BTreeSet<Shard> = moved.map(|advance| advance.shard).collect();
    Ok(if !moved.is_empty() {
        CheckpointLock::Moved(moved)
    } else if rows.iter().any(|row| row.is_paused) {
        CheckpointLock::Paused
    } else {
        CheckpointLock::Locked
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
) -> sqlx::Result<CheckpointLock> {
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
        Some(false) => CheckpointLock::Locked,
        Some(true) => CheckpointLock::Paused,
        None => CheckpointLock::Moved([account.shard].into()),
    })
}

/// Advances the checkpoints that are in the expected state, and returns their number.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn advance_in_tx(
    tx: &mut PgConnection,
    advances: &[CheckpointAdvance],
    role: Role,
) -> sqlx::Result<u64> {
    let columns = Columns::of(advances);
    let result = sqlx::query!(
        "
        UPDATE read_model.checkpoints AS c
        SET position = advance.target
        FROM unnest($1::text[], $2::integer[], $3::smallint[], $4::integer[], $5::bigint[],
                    $6::bigint[])
            AS advance (projection, generation, shard, epoch, position, target)
        WHERE c.projection = advance.projection AND c.generation = advance.generation
          AND c.shard = advance.shard AND c.epoch = advance.epoch
          AND c.position = advance.position AND c.role = $7
        ",
        &columns.projections as &[&str],
        &columns.generations,
        &columns.shards,
        &columns.epochs,
        &columns.from,
        &columns.to,
        role.name()
    )
    .execute(tx)
    .await?;
    Ok(result.rows_affected())
}

/// Advances as columns, for `unnest`.
#[derive(Default)]
struct Columns {
    projections: Vec<&'static str>,
    generations: Vec<i32>,
    shards: Vec<i16>,
    epochs: Vec<i32>,
    from: Vec<Position>,
    to: Vec<Position>,
}

impl Columns {
    fn of(advances: &[CheckpointAdvance]) -> Self {
        let mut columns = Self::default();
        for advance in advances {
            columns.projections.push(advance.projection.name());
            columns.generations.push(advance.from.generation);
            columns.shards.push(advance.shard.number());
            columns.epochs.push(advance.from.epoch);
            columns.from.push(advance.from.position);
            columns.to.push(advance.to);
        }
        columns
    }
}
