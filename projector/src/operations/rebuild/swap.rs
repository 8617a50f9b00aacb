//! The swap: in one short transaction another generation becomes the served one, at the positions of
//! the generation before, or later ones. The transaction locks the served checkpoints, so that the
//! projector waits, and the loader brings the other generation to the same positions.
//!
//! Readers do not block the swap: each statement of a reader looks up the active generation. The
//! projector finds that its checkpoints are no longer live, and reads them again. Redirect caches
//! forget everything when they see another generation.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail, ensure};
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::{log::PerShard, transaction::PoolTransaction};
use linkledger_service::fail_point;
use sqlx::PgConnection;
use tokio::time::{sleep, timeout};

use super::{
    GenerationBuild,
    catch_up::{REST_EVENTS_MAX, catch_up, rest},
    generation::{GenerationPhase, activate_in_tx, is_in_tx},
    loading::Loader,
    parked::WouldPark,
};
use crate::{
    operations::audit::ensure_held_in_tx,
    pipeline::{
        checkpoint::{
            Role,
            generation::{GenerationProgress, exchange_in_tx, generation_progress, lock_in_tx},
        },
        retry,
    },
};

/// Most attempts; each begins by catching up.
const ATTEMPTS_MAX: u32 = 50;
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout of loading the last events while the served checkpoints are locked. The locking transaction is
/// idle meanwhile, and Postgres ends an idle transaction after 1 s. Loaded chunks are kept.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);

/// Most attempts that accounts parked only in the new generation prevent. Meanwhile the served
/// generation reaches the same positions, and parks the same accounts.
const REFUSALS_MAX: u32 = 20;

enum SwapAttempt {
    /// The generation is served, at these positions.
    Done(PerShard<Position>),
    /// The generation lacks too many events to load them under the lock.
    TooFar,
    /// The swap would park accounts that are not parked now.
    WouldPark(WouldPark),
}

/// Swaps the generation in, once it has all events, and returns its positions.
///
/// # Errors
/// Returns an error if another generation is served by now, if events are appended faster than they are
/// read, or if the database fails.
pub(super) async fn swap(
    loader: &Loader,
    build: GenerationBuild,
) -> anyhow::Result<PerShard<Position>> {
    let mut refusals = 0;
    for _ in 0..ATTEMPTS_MAX {
        catch_up(loader, &[build]).await?;
        match attempt(loader, build).await {
            Ok(SwapAttempt::Done(positions)) => return Ok(positions),
            Ok(SwapAttempt::TooFar) => {}
            Ok(SwapAttempt::WouldPark(would_park)) => {
                refusals += 1;
                let is_any_released = would_park.release_any(loader, build).await?;
                ensure!(
                    is_any_released || refusals < REFUSALS_MAX,
                    "{build} cannot replace generation {}, which is still served: {would_park}",
                    build.live
                );
            }
            Err(error) if retry::passes_by_itself(&error) => {
                // The swap may be committed although the answer to COMMIT was lost.
                let served = GenerationBuild {
                    role: Role::Live,
                    ..build
                };
                if let Ok(served) = served.standing(&loader.databases.read).await {
                    return Ok(served.positions);
                }
            }
            Err(error) => return Err(error),
        }
        sleep(RETRY_INTERVAL).await;
    }
    bail!(
        "the swap did not succeed in {ATTEMPTS_MAX} attempts, for example because events are \
         appended too fast; run the command again to continue"
    )
}

async fn attempt(loader: &Loader, build: GenerationBuild) -> anyhow::Result<SwapAttempt> {
    let mut tx = PoolTransaction::begin(&loader.databases.read)
        .await
        .context("cannot swap")?;
    ensure_held_in_tx(&mut tx).await?;
    // The projector waits: the generation reaches the served positions exactly.
    let served = lock_and_read_in_tx(&mut tx, build, (build.live, Role::Live)).await?;
    fail_point::reached("swap.locked");
    let reached = build.standing(&loader.databases.read).await?;
    // A served generation of an earlier epoch has no events that the new one lacks.
    let is_same_log = served.epoch == reached.epoch;
    if is_same_log {
        if rest(&reached.positions, &served.positions) > REST_EVENTS_MAX {
            return Ok(SwapAttempt::TooFar);
        }
        let without_pace = Loader::new(&loader.databases, None, Arc::clone(&loader.progress));
        let builds = [build];
        let load = without_pace.load(&builds, &reached.positions, &served.positions);
        match timeout(LOAD_TIME_MAX, load).await {
            Ok(result) => result?,
            Err(_) => return Ok(SwapAttempt::TooFar),
        }
    }
    let complete = lock_and_read_in_tx(&mut tx, build, (build.generation, build.role)).await?;
    ensure_ready_in_tx(&mut tx, build).await?;
    if is_same_log {
        if rest(&complete.positions, &served.positions) > 0 {
            return Ok(SwapAttempt::TooFar);
        }
        // A served generation of an earlier epoch never reaches the positions of the new one.
        if let Some(would_park) = WouldPark::of(&mut tx, build).await? {
            return Ok(SwapAttempt::WouldPark(would_park));
        }
    }
    serve_in_tx(&mut tx, build).await?;
    // The command reports the swap: a crash of Postgres must not undo it.
    sqlx::query!("SET LOCAL synchronous_commit = on")
        .execute(&mut *tx)
        .await
        .context("cannot swap")?;
    fail_point::reached("swap.written");
    tx.commit().await.context("cannot swap")?;
    fail_point::reached("swap.committed");
    Ok(SwapAttempt::Done(complete.positions))
}

/// Locks the checkpoints of a generation until the end of the transaction, and reads them.
async fn lock_and_read_in_tx(
    tx: &mut PgConnection,
    build: GenerationBuild,
    (generation, role): (i32, Role),
) -> anyhow::Result<GenerationProgress> {
    let projection = build.projection;
    lock_in_tx(tx, projection, generation)
        .await
        .context("cannot lock the checkpoints")?;
    generation_progress(tx, projection, generation, role)
        .await
        .context("cannot read the checkpoints")?
        .with_context(|| format!("another command has swapped the generations of `{projection}`"))
}

/// Locks the phase of the generation, and checks that the generation may be served.
async fn ensure_ready_in_tx(tx: &mut PgConnection, build: GenerationBuild) -> anyhow::Result<()> {
    let ready = match build.role {
        Role::Standby => GenerationPhase::Standby,
        Role::Building | Role::Live => GenerationPhase::Ready,
    };
    ensure!(
        is_in_tx(tx, build.projection, build.generation, ready)
            .await
            .context("cannot read the phase of the generation")?,
        "{build} is no longer ready to be served: another command works on it; see `projector \
         status`"
    );
    Ok(())
}

/// Makes the generation the served one.
async fn serve_in_tx(tx: &mut PgConnection, build: GenerationBuild) -> anyhow::Result<()> {
    let GenerationBuild {
        projection,
        generation,
        live,
        ..
    } = build;
    let exchanged = exchange_in_tx(&mut *tx, projection, live, generation)
        .await
        .context("cannot exchange the checkpoints")?;
    ensure!(
        exchanged == 2 * Shard::all().count() as u64,
        "the checkpoints of `{projection}` are not one for each shard"
    );
    activate_in_tx(&mut *tx, projection, live, generation)
        .await
        .context("cannot activate the generation")?;
    Ok(())
}
