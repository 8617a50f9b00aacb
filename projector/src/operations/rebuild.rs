//! Rebuild: a read model is made from the log again, in a generation of its own, while the one
//! before is served and follows. Compared with that one and found right, it takes its place.
//!
//! Everything is done in short transactions under the checkpoints of the generation, so that it can
//! be broken off at any moment: the same command goes on from there. Nobody reads a generation
//! before the swap is committed.

pub mod catch_up;
pub mod comparison;
pub mod generation;
mod judgement;
pub mod loading;
pub mod pace;
mod parked;
pub mod plan;
pub mod reading;
mod rebuilt;
pub mod rollback;
mod swap;

use std::{num::NonZeroU32, slice::from_mut, sync::Arc, time::Instant};

use anyhow::Context as _;
use linkledger_core::fail_point;
use sqlx::PgPool;

pub use self::rebuilt::{Rebuilt, ShardRead};
use self::{
    catch_up::{Goal, catch_up, is_comparable},
    generation::Phase,
    judgement::judge,
    loading::{Loader, SHARDS_AT_ONCE},
    pace::Pace,
    parked::WouldPark,
    reading::{Reading, Readings},
};
use crate::{
    operations::pause::paused,
    operations::progress::ProgressSink,
    pipeline::checkpoint::{
        Role,
        generation::{Standing, standing},
    },
    read_models::Projection,
};

/// Sessions that a rebuild needs: for each shard that is read one, for a comparison two, and one
/// for the lease of the command.
#[expect(clippy::cast_possible_truncation, reason = "two")]
pub const CONNECTIONS_MAX: u32 = SHARDS_AT_ONCE as u32 + 3;

/// A generation that is not served, and the one that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Of this projection.
    pub projection: Projection,
    /// The one that is built, or brought up to date.
    pub generation: i32,
    /// Which of both.
    pub role: Role,
    /// The one that is served.
    pub live: i32,
}

impl Build {
    /// Where the generation stands.
    async fn standing(&self, pool: &PgPool) -> anyhow::Result<Standing> {
        let Self {
            projection,
            generation,
            role,
            ..
        } = *self;
        let standing = standing(pool, projection, generation, role)
            .await
            .context("can't read the checkpoints")?;
        standing.with_context(|| {
            format!(
                "generation {generation} of `{projection}` is not what it was: somebody else \
                 serves or drops it"
            )
        })
    }
}

/// How to rebuild.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Events per second; `None` is as fast as it goes.
    pub max_rate: Option<NonZeroU32>,
    /// Whether the new generation is served at last.
    pub swap: bool,
}

/// Rebuilds the projections from the log, which is read once for all of them, and has the new
/// generations served one after the other. What was begun before is gone on with.
///
/// # Errors
/// When a generation is not what it should be, and none is served then; or when the database does
/// not answer for long.
pub async fn rebuild(
    pool: &PgPool,
    projections: &[Projection],
    settings: Settings,
    progress: Arc<dyn ProgressSink>,
) -> anyhow::Result<Vec<Rebuilt>> {
    let begun_at = Instant::now();
    let loader = Loader {
        pool: pool.clone(),
        pace: Arc::new(Pace::new(settings.max_rate)),
        progress,
    };
    let (mut builds, mut readings) = (Vec::new(), Vec::new());
    for projection in projections {
        let build = begin(pool, *projection).await?;
        let standing = build.standing(pool).await?;
        readings.push(standing.positions.map(Reading::from));
        builds.push(build);
    }
    loader.progress.enter("loading", 0, "events");
    catch_up(&loader, &builds, &mut readings, Goal::Served).await?;
    fail_point::reached("rebuild.loaded");
    let mut all_rebuilt = Vec::new();
    for (build, readings) in builds.into_iter().zip(&mut readings) {
        let rebuilt = finish(&loader, build, readings, settings.swap, begun_at).await?;
        all_rebuilt.push(rebuilt);
    }
    Ok(all_rebuilt)
}

/// The generation that is being built, or a new one.
async fn begin(pool: &PgPool, projection: Projection) -> anyhow::Result<Build> {
    let plan = plan::plan(pool, projection).await?;
    if let Some(stale) = plan.stale {
        generation::drop_all(pool, projection, stale).await?;
    }
    if !plan.is_begun {
        generation::create(pool, projection, plan.build.generation, plan.epoch).await?;
    }
    Ok(plan.build)
}

/// How far a generation may go before it is compared.
async fn goal(pool: &PgPool, build: Build) -> anyhow::Result<Goal> {
    Ok(
        if is_comparable(pool, build.projection, build.live).await? {
            Goal::Served
        } else {
            Goal::Head
        },
    )
}

/// Brings the generation up to date, compares it, and has it served.
async fn finish(
    loader: &Loader,
    build: Build,
    readings: &mut Readings,
    swap: bool,
    begun_at: Instant,
) -> anyhow::Result<Rebuilt> {
    let pool = &loader.pool;
    let Build {
        projection,
        generation,
        ..
    } = build;
    let phase = |name: &str| format!("{projection}: {name}");
    enter(pool, build, Phase::CatchingUp).await?;
    loader.progress.enter(&phase("catching up"), 0, "events");
    let goal = goal(pool, build).await?;
    catch_up(loader, &[build], from_mut(readings), goal).await?;
    generation::analyze(pool, projection, generation).await;
    // What is released in the one that is served is released here by nobody else.
    parked::release_all(loader, build).await?;
    enter(pool, build, Phase::Comparing).await?;
    let comparison = match goal {
        Goal::Head => None,
        Goal::Served => {
            loader.progress.enter(&phase("comparing"), 0, "rows");
            comparison::compare(loader, build, readings).await?
        }
    };
    let verified_events = judge(loader, build, comparison.as_ref()).await?;
    fail_point::reached("rebuild.compared");
    enter(pool, build, Phase::Ready).await?;
    let would_park = if swap {
        loader.progress.enter(&phase("swapping"), 0, "events");
        swap::swap(loader, build, readings).await?;
        None
    } else {
        let stands = build.standing(pool).await?;
        reading::ensure_complete(projection, readings, &stands.positions)?;
        match goal {
            // What is served is of a log that is lost.
            Goal::Head => None,
            Goal::Served => WouldPark::of(&mut *pool.acquire().await?, build).await?,
        }
    };
    let shards = ShardRead::of_all(readings);
    Ok(Rebuilt {
        projection: projection.name(),
        generation,
        previous: build.live,
        served: swap,
        events: shards.iter().map(|it| it.events).sum(),
        shards,
        comparison,
        verified_events,
        would_park,
        is_paused: is_paused(pool, projection).await?,
        seconds: begun_at.elapsed().as_secs_f64(),
    })
}

/// Whether an operator has paused what is served.
pub(crate) async fn is_paused(pool: &PgPool, projection: Projection) -> anyhow::Result<bool> {
    let paused = paused(pool, &[projection])
        .await
        .context("can't read whether it is paused")?;
    Ok(paused.iter().any(|(_, since)| since.is_some()))
}

/// A standby is what it is until it is served again.
async fn enter(pool: &PgPool, build: Build, phase: Phase) -> anyhow::Result<()> {
    match build.role {
        Role::Building => generation::enter(pool, build.projection, build.generation, phase).await,
        Role::Standby | Role::Live => Ok(()),
    }
}
