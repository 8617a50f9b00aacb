//! Table `read_model.generations`: the generations of each projection, and their phases.

mod tables;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use linkledger_core::clock::{Clock as _, SystemClock};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

pub use self::tables::{analyze, create, drop_all};
use crate::read_models::Projection;

/// Time for which a generation is kept after the swap: by then all reads of it have ended.
pub const KEPT_FOR: Duration = Duration::from_mins(1);

linkledger_core::named_enum! {
    /// Phase of a generation, by its name in SQL.
    pub enum GenerationPhase {
        /// The generation is filled from the log.
        Loading = "loading",
        /// The generation has the events up to the start of the rebuild, and follows the log.
        CatchingUp = "catching_up",
        /// The verification before the swap.
        Comparing = "comparing",
        /// The generation can be served.
        Ready = "ready",
        /// The generation is served.
        Active = "active",
        /// The generation was served, and is kept for a rollback.
        Standby = "standby",
        /// The tables of the generation are being dropped.
        Dropping = "dropping",
    }
}

impl GenerationPhase {
    /// Returns true if a rebuild works on the generation.
    pub const fn is_building(self) -> bool {
        match self {
            Self::Loading | Self::CatchingUp | Self::Comparing | Self::Ready => true,
            Self::Active | Self::Standby | Self::Dropping => false,
        }
    }
}

/// A generation of a read model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Number of the generation.
    pub number: i32,
    /// Phase of the generation.
    pub phase: GenerationPhase,
    /// Time of the swap that replaced the generation.
    pub last_active_at: Option<OffsetDateTime>,
}

impl Generation {
    /// Returns the time since the generation was last served.
    pub fn rested_for(&self) -> Option<Duration> {
        let rested = SystemClock.now() - self.last_active_at?;
        Some(rested.try_into().unwrap_or_default())
    }
}

/// Returns the generations of a projection, by number.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(pool: &PgPool, projection: Projection) -> sqlx::Result<Vec<Generation>> {
    let rows = sqlx::query!(
        "
        SELECT generation, phase, last_active_at
        FROM read_model.generations
        WHERE projection = $1
        ORDER BY generation
        ",
        projection.name()
    )
    .fetch_all(pool)
    .await?;
    let generations = rows.into_iter().map(|row| {
        let phase = GenerationPhase::of_name(&row.phase).ok_or_else(|| {
            let unknown = format!("the phase `{}` is unknown to this release", row.phase);
            sqlx::Error::Decode(unknown.into())
        })?;
        Ok(Generation {
            number: row.generation,
            phase,
            last_active_at: row.last_active_at,
        })
    });
    generations.collect()
}

/// Returns the number of the live generation, which reads use.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn active(pool: &PgPool, projection: Projection) -> sqlx::Result<i32> {
    sqlx::query_scalar!(
        "SELECT active_generation FROM read_model.projections WHERE projection = $1",
        projection.name()
    )
    .fetch_one(pool)
    .await
}

/// Returns the highest number ever given to a generation, dropped generations included.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn highest(pool: &PgPool, projection: Projection) -> sqlx::Result<i32> {
    sqlx::query_scalar!(
        "SELECT highest_generation FROM read_model.projections WHERE projection = $1",
        projection.name()
    )
    .fetch_one(pool)
    .await
}

/// Records the phase of a generation that a rebuild works on.
///
/// # Errors
/// Returns an error if another command has swapped or dropped the generation, or if the database
/// fails.
pub async fn enter(
    pool: &PgPool,
    projection: Projection,
    number: i32,
    phase: GenerationPhase,
) -> anyhow::Result<()> {
    // A process that was frozen may be late: the phase is set only while the generation is built.
    let noted = sqlx::query!(
        "
        UPDATE read_model.generations
        SET phase = $3, compared_at = CASE $3 WHEN 'ready' THEN now() ELSE compared_at END
        WHERE projection = $1 AND generation = $2
          AND phase IN ('loading', 'catching_up', 'comparing', 'ready')
        ",
        projection.name(),
        number,
        phase.name()
    )
    .execute(pool)
    .await
    .context("cannot record the phase of the generation")?;
    ensure!(
        noted.rows_affected() == 1,
        "generation {number} of `{projection}` is no longer built: another command has swapped or \
         dropped it; see `projector status`"
    );
    Ok(())
}

/// Returns true if the generation is in that phase, and locks the phase until the end of the
/// transaction.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn is_in_tx(
    tx: &mut PgConnection,
    projection: Projection,
    number: i32,
    phase: GenerationPhase,
) -> sqlx::Result<bool> {
    let found = sqlx::query_scalar!(
        "
        SELECT phase FROM read_model.generations
        WHERE projection = $1 AND generation = $2
        FOR UPDATE
        ",
        projection.name(),
        number
    )
    .fetch_optional(tx)
    .await?;
    Ok(found.as_deref() == Some(phase.name()))
}

/// Makes `next` the active generation in place of `live`.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn activate_in_tx(
    tx: &mut PgConnection,
    projection: Projection,
    live: i32,
    next: i32,
) -> sqlx::Result<()> {
    // A unique index allows one active generation at a time: the order matters.
    sqlx::query!(
        "
        UPDATE read_model.generations SET phase = 'standby', last_active_at = clock_timestamp()
        WHERE projection = $1 AND generation = $2
        ",
        projection.name(),
        live
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "
        UPDATE read_model.generations SET phase = 'active', last_active_at = NULL
        WHERE projection = $1 AND generation = $2
        ",
        projection.name(),
        next
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "UPDATE read_model.projections SET active_generation = $2 WHERE projection = $1",
        projection.name(),
        next
    )
    .execute(tx)
    .await?;
    Ok(())
}
