//! Table `read_model.generations`: which ones there are, and what is done with them.

mod tables;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use linkledger_core::clock::{Clock as _, SystemClock};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

pub use self::tables::{analyze, create, drop_all};
use crate::read_models::Projection;

/// How long a generation is kept after it was served last: what was asked of it has long ended.
pub const KEPT_FOR: Duration = Duration::from_mins(1);

/// What is done with a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is filled from the log.
    Loading,
    /// It has what was in the log when it was begun.
    CatchingUp,
    /// The generation is verified with the log.
    Comparing,
    /// It can be served.
    Ready,
    /// It is served.
    Active,
    /// It was served, and can be gone back to.
    Standby,
    /// Its tables are going.
    Dropping,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Loading,
        Self::CatchingUp,
        Self::Comparing,
        Self::Ready,
        Self::Active,
        Self::Standby,
        Self::Dropping,
    ];

    /// The name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::CatchingUp => "catching_up",
            Self::Comparing => "comparing",
            Self::Ready => "ready",
            Self::Active => "active",
            Self::Standby => "standby",
            Self::Dropping => "dropping",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether it is on its way to be served.
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
    /// Its number.
    pub number: i32,
    /// What is done with it.
    pub phase: Phase,
    /// True if a verification with the log has succeeded.
    pub is_compared: bool,
    /// When it ceased to be served.
    pub last_active_at: Option<OffsetDateTime>,
}

impl Generation {
    /// How long ago it was served last.
    pub fn rested_for(&self) -> Option<Duration> {
        let rested = SystemClock.now() - self.last_active_at?;
        Some(rested.try_into().unwrap_or_default())
    }
}

/// The generations of a projection, by number.
///
/// # Errors
/// When the database does not answer.
pub async fn list(pool: &PgPool, projection: Projection) -> sqlx::Result<Vec<Generation>> {
    let rows = sqlx::query!(
        "
        SELECT generation, phase, compared_at, last_active_at
        FROM read_model.generations
        WHERE projection = $1
        ORDER BY generation
        ",
        projection.name()
    )
    .fetch_all(pool)
    .await?;
    let generations = rows.into_iter().map(|row| {
        let phase = Phase::named(&row.phase).ok_or_else(|| {
            let unknown = format!("the phase `{}` is not of this release", row.phase);
            sqlx::Error::Decode(unknown.into())
        })?;
        Ok(Generation {
            number: row.generation,
            phase,
            is_compared: row.compared_at.is_some(),
            last_active_at: row.last_active_at,
        })
    });
    generations.collect()
}

/// The generation that is served.
///
/// # Errors
/// When the database does not answer.
pub async fn active(pool: &PgPool, projection: Projection) -> sqlx::Result<i32> {
    sqlx::query_scalar!(
        "SELECT active_generation FROM read_model.projections WHERE projection = $1",
        projection.name()
    )
    .fetch_one(pool)
    .await
}

/// The highest number that was given to a generation, one that is dropped included.
///
/// # Errors
/// When the database does not answer.
pub async fn highest(pool: &PgPool, projection: Projection) -> sqlx::Result<Option<i32>> {
    sqlx::query_scalar!(
        "SELECT highest FROM read_model.generation_numbers WHERE projection = $1",
        projection.name()
    )
    .fetch_optional(pool)
    .await
}

/// Notes what is being done with a generation that is built.
///
/// # Errors
/// When it is no longer built, because somebody else has it served or drops it; or when the
/// database does not answer.
pub async fn enter(
    pool: &PgPool,
    projection: Projection,
    number: i32,
    phase: Phase,
) -> anyhow::Result<()> {
    // Who has stood still for long may come late with it.
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
    .context("can't note how far the generation is")?;
    ensure!(
        noted.rows_affected() == 1,
        "generation {number} of `{projection}` is no longer built: somebody else has had it served, \
         or drops it; `projector status` shows what it is"
    );
    Ok(())
}

/// Whether that is being done with the generation, until the end of the transaction.
///
/// # Errors
/// When the database does not answer.
pub async fn is_in_tx(
    tx: &mut PgConnection,
    projection: Projection,
    number: i32,
    phase: Phase,
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

/// From the end of the transaction on, `next` is served, and no longer `live`.
///
/// # Errors
/// When the database does not answer.
pub async fn activate_in_tx(
    tx: &mut PgConnection,
    projection: Projection,
    live: i32,
    next: i32,
) -> sqlx::Result<()> {
    // In this order: one generation is active at a time.
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
