//! Table `read_model.checkpoints`: how far each projection is in each shard.
//!
//! It is the only truth about that; the row is locked before any row of a read model is written,
//! and held to commit.

pub mod generation;

use std::collections::BTreeSet;

use linkledger_core::shard::{Position, Shard};
use sqlx::{PgConnection, PgPool};

use crate::{pipeline::parking::ParkedAccount, read_models::Projection};

/// What a generation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A rebuild writes it; nobody reads it.
    Building,
    /// The projector writes it; it is read.
    Live,
    /// It was live, and can be gone back to.
    Standby,
}

impl Role {
    /// The name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Live => "live",
            Self::Standby => "standby",
        }
    }
}

/// Where one projection stands in one shard, in one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The generation of the read model that it speaks of.
    pub generation: i32,
    /// The epoch of the log that `position` belongs to.
    pub epoch: i32,
    /// Everything up to it is in the read model.
    pub position: Position,
}

/// A checkpoint that the projector keeps, as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct LiveCheckpoint {
    /// Whose.
    pub projection: Projection,
    /// Where.
    pub shard: Shard,
    /// How far.
    pub checkpoint: Checkpoint,
    /// Whether an operator keeps it from moving.
    pub is_paused: bool,
    /// How many accounts are parked there, counted up to `PARKED_COUNTED_MAX`.
    pub parked_accounts: u32,
    /// Whether an event that it has not come to is left out.
    pub has_skipped: bool,
}

/// Most parked accounts that are counted in a shard.
pub const PARKED_COUNTED_MAX: i64 = 1_000;

/// A checkpoint on its way forward.
#[derive(Debug, Clone, Copy)]
pub struct Advance {
    /// Whose.
    pub projection: Projection,
    /// Where.
    pub shard: Shard,
    /// What it must still be.
    pub from: Checkpoint,
    /// What it becomes.
    pub to: Position,
}

/// The live checkpoints of these shards.
///
/// # Errors
/// When the database does not answer.
pub async fn load_live(pool: &PgPool, shards: &[Shard]) -> sqlx::Result<Vec<LiveCheckpoint>> {
    let numbers: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
    // One snapshot: an account is parked only when the checkpoint moves.
    let rows = sqlx::query!(
        r#"
        SELECT c.projection, c.generation, c.shard, c.epoch, c.position,
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
    let known = rows.into_iter().filter_map(|row| {
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
            is_paused: row.is_paused,
            has_skipped: row.has_skipped,
            parked_accounts: u32::try_from(row.parked_accounts).ok()?,
        })
    });
    Ok(known.collect())
}

/// What has come of an attempt to lock checkpoints.
#[derive(Debug)]
pub enum Lock {
    /// All are what is expected, and stay so until the end of the transaction.
    Held,
    /// Those of these shards are not.
    Lost(BTreeSet<Shard>),
    /// An operator keeps one of them from moving.
    Paused,
}

/// Locks the checkpoints, if they are what is expected and move.
///
/// # Errors
/// When the database does not answer, or a lock is not had in time (SQLSTATE 55P03).
pub async fn lock_in_tx(
    tx: &mut PgConnection,
    advances: &[Advance],
    role: Role,
) -> sqlx::Result<Lock> {
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
    let is_found = |advance: &&Advance| {
        rows.iter().any(|row| {
            row.projection == advance.projection.name() && row.shard == advance.shard.number()
        })
    };
    let lost = advances.iter().filter(|advance| !is_found(advance));
    let lost: BTreeSet<Shard> = lost.map(|advance| advance.shard).collect();
    Ok(if !lost.is_empty() {
        Lock::Lost(lost)
    } else if rows.iter().any(|row| row.is_paused) {
        Lock::Paused
    } else {
        Lock::Held
    })
}

/// Locks the checkpoint under which rows of the account are written, if it has that role.
///
/// # Errors
/// When the database does not answer, or the lock is not had in time (SQLSTATE 55P03).
pub async fn lock_of_in_tx(
    tx: &mut PgConnection,
    account: ParkedAccount,
    role: Role,
) -> sqlx::Result<Lock> {
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
        Some(false) => Lock::Held,
        Some(true) => Lock::Paused,
        None => Lock::Lost([account.shard].into()),
    })
}

/// Moves the checkpoints forward, and returns how many were still what is expected.
///
/// # Errors
/// When the database does not answer.
pub async fn advance_in_tx(
    tx: &mut PgConnection,
    advances: &[Advance],
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

/// The advances column by column, as `unnest` takes them.
struct Columns {
    projections: Vec<&'static str>,
    generations: Vec<i32>,
    shards: Vec<i16>,
    epochs: Vec<i32>,
    from: Vec<Position>,
    to: Vec<Position>,
}

impl Columns {
    fn of(advances: &[Advance]) -> Self {
        Self {
            projections: advances.iter().map(|it| it.projection.name()).collect(),
            generations: advances.iter().map(|it| it.from.generation).collect(),
            shards: advances.iter().map(|it| it.shard.number()).collect(),
            epochs: advances.iter().map(|it| it.from.epoch).collect(),
            from: advances.iter().map(|it| it.from.position).collect(),
            to: advances.iter().map(|it| it.to).collect(),
        }
    }
}
