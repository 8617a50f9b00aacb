//! Table `read_model.checkpoints`: how far each projection is in each shard.
//!
//! It is the only truth about that; the row is locked before any row of a read model is written,
//! and held to commit.

use std::collections::BTreeSet;

use linkledger_core::shard::{Position, Shard};
use sqlx::{PgConnection, PgPool};

use crate::projections::Projection;

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
pub async fn load_live(
    pool: &PgPool,
    shards: &[Shard],
) -> sqlx::Result<Vec<(Shard, Projection, Checkpoint)>> {
    let numbers: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
    let rows = sqlx::query!(
        "
        SELECT projection, generation, shard, epoch, position
        FROM read_model.checkpoints
        WHERE role = 'live' AND shard = ANY($1)
        ",
        &numbers
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
        Some((shard, projection, checkpoint))
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
