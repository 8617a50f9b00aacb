//! Table `read_model.checkpoints`: how far each projection is in each shard.
//!
//! It is the only truth about that; the row is locked before any row of a read model is written,
//! and held to commit.

use std::collections::BTreeSet;

use linkledger_core::shard::{Position, Shard};
use sqlx::{PgConnection, PgPool};

use crate::{parking::ParkedAccount, projections::Projection};

/// Where one projection stands in one shard, in its live generation.
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
    /// How many accounts are parked there, counted up to `PARKED_COUNTED_MAX`.
    pub parked_accounts: u32,
}

/// Most parked accounts that are counted in a shard.
const PARKED_COUNTED_MAX: i64 = 1_000;

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
        SELECT c.projection, c.generation, c.shard, c.epoch, c.position, (
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
            parked_accounts: u32::try_from(row.parked_accounts).ok()?,
        })
    });
    Ok(known.collect())
}

/// Locks those of the checkpoints that are what is expected, and returns the shards of the others.
///
/// # Errors
/// When the database does not answer, or a lock is not had in time (SQLSTATE 55P03).
pub async fn lock_in_tx(
    tx: &mut PgConnection,
    advances: &[Advance],
) -> sqlx::Result<BTreeSet<Shard>> {
    let columns = Columns::of(advances);
    let rows = sqlx::query!(
        "
        SELECT c.projection, c.shard
        FROM unnest($1::text[], $2::integer[], $3::smallint[], $4::integer[], $5::bigint[])
            AS expected (projection, generation, shard, epoch, position)
        JOIN read_model.checkpoints AS c USING (projection, generation, shard, epoch, position)
        WHERE c.role = 'live'
        ORDER BY c.projection, c.generation, c.shard
        FOR UPDATE OF c
        ",
        &columns.projections as &[&str],
        &columns.generations,
        &columns.shards,
        &columns.epochs,
        &columns.from
    )
    .fetch_all(tx)
    .await?;
    let is_held = |advance: &Advance| {
        rows.iter().any(|row| {
            row.projection == advance.projection.name() && row.shard == advance.shard.number()
        })
    };
    let others = advances.iter().filter(|advance| !is_held(advance));
    Ok(others.map(|advance| advance.shard).collect())
}

/// Locks the checkpoint under which rows of the account are written; `false` if it is not live.
///
/// # Errors
/// When the database does not answer, or the lock is not had in time (SQLSTATE 55P03).
pub async fn lock_live_in_tx(tx: &mut PgConnection, account: ParkedAccount) -> sqlx::Result<bool> {
    let row = sqlx::query!(
        "
        SELECT position FROM read_model.checkpoints
        WHERE projection = $1 AND generation = $2 AND shard = $3 AND role = 'live'
        FOR UPDATE
        ",
        account.projection.name(),
        account.generation,
        account.shard.number()
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.is_some())
}

/// Moves the checkpoints forward, and returns how many were still what is expected.
///
/// # Errors
/// When the database does not answer.
pub async fn advance_in_tx(tx: &mut PgConnection, advances: &[Advance]) -> sqlx::Result<u64> {
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
          AND c.position = advance.position AND c.role = 'live'
        ",
        &columns.projections as &[&str],
        &columns.generations,
        &columns.shards,
        &columns.epochs,
        &columns.from,
        &columns.to
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
