//! Rebuild: recreates a read model from the log in a new generation of its tables, while the
//! served generation follows the log. After a successful verification the new generation replaces
//! the served one.
//!
//! All work is done in short transactions under the checkpoints of the new generation. A rebuild can
//! therefore be interrupted at any moment, and the same command continues it. No service reads a
//! generation before its swap is committed.

pub mod catch_up;
pub mod generation;
pub mod loading;
pub mod pace;
mod parked;
pub mod plan;
mod report;
pub mod rollback;
mod swap;

use std::{fmt, num::NonZeroU32, sync::Arc, time::Instant};

use anyhow::{Context as _, bail};
use linkledger_core::shard::Position;
use linkledger_event_store::log::PerShard;
use linkledger_service::{databases::Databases, fail_point};
use sqlx::PgPool;

pub use self::report::RebuildReport;
use self::{
    catch_up::{catch_up, is_same_log, rest},
    generation::GenerationPhase,
    loading::Loader,
    parked::WouldPark,
};
use crate::{
    operations::{
        pause::paused,
        verify::{self, GenerationTarget, SESSIONS, outcome},
    },
    pipeline::{
        checkpoint::{
            Role,
            generation::{GenerationProgress, generation_progress},
        },
        retry::retried,
    },
    progress::ProgressReport,
    read_models::Projection,
};

/// Sessions that a rebuild needs: those of the verification, one for the lock of the command, and one
/// for short questions meanwhile.
pub const CONNECTIONS_MAX: u32 = SESSIONS + 2;

/// Generation that is built or brought up to date, and the served one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationBuild {
    /// Projection.
    pub projection: Projection,
    /// Number of the generation that is built, or brought up to date.
    pub generation: i32,
    /// Role of that generation: building, or standby for a rollback.
    pub role: Role,
    /// Number of the served generation.
    pub live: i32,
}

impl fmt::Display for GenerationBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {} of `{}`", self.generation, self.projection)
    }
}

impl GenerationBuild {
    /// Returns the positions of the generation.
    async fn standing(&self, pool: &PgPool) -> anyhow::Result<GenerationProgress> {
        let Self {
            projection,
            generation,
            role,
            ..
        } = *self;
        let standing = generation_progress(pool, projection, generation, role)
            .await
            .context("cannot read the checkpoints")?;
        standing.with_context(|| format!("another command has swapped or dropped {self}"))
    }
}

/// Settings of a rebuild.
#[derive(Debug, Clone, Copy)]
pub struct RebuildSettings {
    /// Events per second; `None` for no limit.
    pub max_rate: Option<NonZeroU32>,
    /// True if the new generation is swapped in at the end.
    pub swap: bool,
}

/// Rebuilds the projections from the log, which is read once for all of them, and swaps the new
/// generations in, one after the other. A rebuild that was interrupted is continued.
///
/// # Errors
/// Returns an error if a new generation is wrong, which is not served then, or if the database
/// fails for long.
pub async fn rebuild(
    databases: &Databases,
    projections: &[Projection],
    settings: RebuildSettings,
    progress: Arc<ProgressReport>,
) -> anyhow::Result<Vec<RebuildReport>> {
    let begun_at = Instant::now();
    let loader = Loader::new(databases, settings.max_rate, progress);
    let (mut builds, mut starts) = (Vec::new(), Vec::new());
    for projection in projections {
        let build = begin(databases, *projection).await?;
        starts.push(build.standing(&databases.read).await?.positions);
        builds.push(build);
    }
    loader.progress.enter("loading", 0, "events");
    catch_up(&loader, &builds).await?;
    fail_point::reached("rebuild.loaded");
    let mut all_rebuilt = Vec::new();
    for (build, starts) in builds.into_iter().zip(&starts) {
        let rebuilt = finish(&loader, build, starts, settings.swap, begun_at).await?;
        all_rebuilt.push(rebuilt);
    }
    Ok(all_rebuilt)
}

/// Returns the generation of an interrupted rebuild, or creates a new one.
async fn begin(databases: &Databases, projection: Projection) -> anyhow::Result<GenerationBuild> {
    let (plan, pool) = (plan::plan(databases, projection).await?, &databases.read);
    if let Some(stale) = plan.stale {
        generation::drop_all(pool, projection, stale).await?;
    }
    if !plan.is_begun {
        generation::create(pool, projection, plan.build.generation, plan.epoch).await?;
    }
    Ok(plan.build)
}

/// Brings the generation to the head of the log, verifies it, and serves it if `swap` is set.
async fn finish(
    loader: &Loader,
    build: GenerationBuild,
    starts: &PerShard<Position>,
    swap: bool,
    begun_at: Instant,
) -> anyhow::Result<RebuildReport> {
    let (databases, pool) = (&loader.databases, &loader.databases.read);
    let GenerationBuild {
        projection,
        generation,
        ..
    } = build;
    let phase = |name: &str| format!("{projection}: {name}");
    enter(pool, build, GenerationPhase::CatchingUp).await?;
    loader.progress.enter(&phase("catching up"), 0, "events");
    catch_up(loader, &[build]).await?;
    generation::analyze(pool, projection, generation).await;
    // The running projector releases parked accounts of the served generation only.
    parked::release_all(loader, build).await?;
    enter(pool, build, GenerationPhase::Comparing).await?;
    let verified_events = ensure_verified(loader, build).await?;
    fail_point::reached("rebuild.verified");
    enter(pool, build, GenerationPhase::Ready).await?;
    let (heads, would_park) = if swap {
        loader.progress.enter(&phase("swapping"), 0, "events");
        (swap::swap(loader, build).await?, None)
    } else {
        let heads = build.standing(pool).await?.positions;
        let would_park = if is_same_log(databases, projection, build.live).await? {
            WouldPark::of(&mut *pool.acquire().await?, build).await?
        } else {
            None
        };
        (heads, would_park)
    };
    Ok(RebuildReport {
        projection: projection.name(),
        generation,
        previous: build.live,
        served: swap,
        events: rest(starts, &heads),
        verified_events,
        would_park,
        is_paused: is_paused(pool, projection).await?,
        seconds: begun_at.elapsed().as_secs_f64(),
    })
}

/// Verifies the generation with the log, records the outcome, and returns the number of verified
/// events.
///
/// # Errors
/// Returns an error if a row is wrong, or if the database fails.
async fn ensure_verified(loader: &Loader, build: GenerationBuild) -> anyhow::Result<u64> {
    let GenerationBuild {
        projection,
        generation,
        live,
        ..
    } = build;
    let target = GenerationTarget {
        projection,
        generation,
    };
    let events = verify::event_count(&loader.databases.read, target).await?;
    loader
        .progress
        .enter(&format!("{projection}: verifying"), events, "events");
    let on_progress = |events| loader.progress.advance(events);
    let verified = verify::verify_generation(&loader.databases, target, &on_progress).await?;
    retried(|| async {
        let recorded = outcome::record(&loader.databases.read, &verified).await;
        recorded.context("cannot record the outcome of the verification")
    })
    .await?;
    if verified.findings.is_empty() {
        return Ok(verified.events);
    }
    let named = serde_json::to_string(&verified.findings.named.first())
        .context("cannot print the first wrong row")?;
    bail!(
        "{build} does not say what the log says: {} rows are wrong, the first one is {named}. Generation {live} is still served. `projector drop \
         {projection} {generation}`, then `projector rebuild {projection}` makes a new one",
        verified.findings.mismatches
    )
}

/// Returns true if an operator has paused the projection.
pub(crate) async fn is_paused(pool: &PgPool, projection: Projection) -> anyhow::Result<bool> {
    let paused = paused(pool, &[projection.into()])
        .await
        .context("cannot read whether it is paused")?;
    Ok(paused.iter().any(|(_, since)| since.is_some()))
}

/// Records the phase of a generation that is built. A standby keeps its phase until the swap.
async fn enter(
    pool: &PgPool,
    build: GenerationBuild,
    phase: GenerationPhase,
) -> anyhow::Result<()> {
    match build.role {
        Role::Building => generation::enter(pool, build.projection, build.generation, phase).await,
        Role::Standby | Role::Live => Ok(()),
    }
}
