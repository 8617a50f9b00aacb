//! The swap: in one short transaction another generation becomes the served one, at the positions of
//! the generation before, or later ones.
//!
//! Readers do not block the swap: each statement of a reader looks up the active generation. The
//! projector finds that its checkpoints are no longer live, and reads them again. Redirect caches
//! forget everything when they see another generation.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{
    event_store::log::PerShard,
    fail_point,
    shard::{Position, Shard},
};
use sqlx::PgConnection;
use tokio::time::sleep;

use super::{
    GenerationBuild,
    catch_up::{REST_EVENTS_MAX, catch_up, rest},
    generation::{GenerationPhase, activate_in_tx, is_in_tx},
    loading::Loader,
    parked::WouldPark,
    reading::{ShardReadings, ensure_complete, read},
};
use crate::{
    operations::audit::ensure_held_in_tx,
    pipeline::{
        apply::{ApplyTarget, ShardBatch, apply_in_tx},
        checkpoint::{
            Checkpoint, Role,
            generation::{GenerationProgress, exchange_in_tx, generation_progress, lock_in_tx},
        },
        parking::table::parked_among,
        progress::Progress,
        retry,
    },
    read_models::skipped::Skipped,
};

/// Most attempts; each begins by catching up.
const ATTEMPTS_MAX: u32 = 50;
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Most attempts that accounts parked only in the new generation prevent. Meanwhile the served
/// generation reaches the same positions, and parks the same accounts.
const REFUSALS_MAX: u32 = 20;

enum SwapAttempt {
    Done,
    /// Too many events are left for one transaction, or an event cannot be applied in it.
    TooFar,
    /// The swap would park accounts that are not parked now.
    WouldPark(WouldPark),
}

/// Swaps the generation in, once it has all events.
///
/// # Errors
/// Returns an error if another generation is served by now, if events are appended faster than they are
/// read, or if the database does not answer.
pub(super) async fn swap(
    loader: &Loader,
    build: GenerationBuild,
    readings: &mut ShardReadings,
) -> anyhow::Result<()> {
    let mut refusals = 0;
    for _ in 0..ATTEMPTS_MAX {
        catch_up(loader, &[build], std::slice::from_mut(readings)).await?;
        match attempt(loader, build, readings).await {
            Ok(SwapAttempt::Done) => return Ok(()),
            Ok(SwapAttempt::TooFar) => {}
            Ok(SwapAttempt::WouldPark(would_park)) => {
                refusals += 1;
                if !would_park.release_any(loader, build).await? && refusals >= REFUSALS_MAX {
                    let GenerationBuild {
                        projection,
                        generation,
                        live,
                        ..
                    } = build;
                    bail!(
                        "generation {generation} of `{projection}` cannot replace generation \
                         {live}, which is still served: {would_park}"
                    );
                }
            }
            Err(error) if retry::passes_by_itself(&error) || is_refusal(&error) => {
                // The swap may be committed although the answer to COMMIT was lost.
                if super::generation::active(&loader.pool, build.projection)
                    .await
                    .is_ok_and(|active| active == build.generation)
                {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
        sleep(RETRY_INTERVAL).await;
    }
    bail!("events are appended too fast for a swap: run the command again, it continues from here")
}

fn is_refusal(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<sqlx::Error>()
        .is_some_and(retry::is_refusal)
}

async fn attempt(
    loader: &Loader,
    build: GenerationBuild,
    readings: &mut ShardReadings,
) -> anyhow::Result<SwapAttempt> {
    let GenerationBuild {
        projection, role, ..
    } = build;
    let mut tx = loader.pool.begin().await.context("cannot swap")?;
    let (served, other) = lock_both_in_tx(&mut tx, build).await?;
    fail_point::reached("swap.locked");
    // A served generation of an earlier epoch has no events that the new one lacks.
    let is_same_log = served.epoch == other.epoch;
    if is_same_log && rest(&other.positions, &served.positions) > REST_EVENTS_MAX {
        return Ok(SwapAttempt::TooFar);
    }
    let runs = if is_same_log {
        runs_between(loader, build, &other, &served.positions).await?
    } else {
        Vec::new()
    };
    let mut positions = other.positions;
    for run in &runs {
        let shard = run.progress.shard();
        readings[shard.index()].note(&run.events);
        positions[shard.index()] = run.end();
    }
    ensure_complete(projection, readings, &positions)?;
    let target = ApplyTarget {
        projections: &[projection],
        role,
    };
    let applied = apply_in_tx(&loader.pool, &mut tx, &runs, target)
        .await
        .context("cannot apply events")?;
    if applied.is_err() {
        return Ok(SwapAttempt::TooFar);
    }
    // A served generation of an earlier epoch never reaches the positions of the new one.
    if is_same_log && let Some(would_park) = WouldPark::of(&mut tx, build).await? {
        return Ok(SwapAttempt::WouldPark(would_park));
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
    Ok(SwapAttempt::Done)
}

/// Returns the positions of the served generation and of the other one, and locks both until the end
/// of the transaction.
async fn lock_both_in_tx(
    tx: &mut PgConnection,
    build: GenerationBuild,
) -> anyhow::Result<(GenerationProgress, GenerationProgress)> {
    let GenerationBuild {
        projection,
        generation,
        role,
        live,
    } = build;
    ensure_held_in_tx(tx).await?;
    lock_in_tx(tx, projection, &[live, generation])
        .await
        .context("cannot lock the checkpoints")?;
    let served = generation_progress(&mut *tx, projection, live, Role::Live).await;
    let other = generation_progress(&mut *tx, projection, generation, role).await;
    let served = served.context("cannot read the checkpoints")?;
    let other = other.context("cannot read the checkpoints")?;
    let (Some(served), Some(other)) = (served, other) else {
        bail!("another command has swapped the generations of `{projection}`");
    };
    let ready = match role {
        Role::Standby => GenerationPhase::Standby,
        Role::Building | Role::Live => GenerationPhase::Ready,
    };
    ensure!(
        is_in_tx(tx, projection, generation, ready)
            .await
            .context("cannot read what the generation is for")?,
        "generation {generation} of `{projection}` is no longer ready to be served: another command \
         works on it; see `projector status`"
    );
    Ok((served, other))
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

/// Reads the events that the generation lacks, shard by shard.
async fn runs_between(
    loader: &Loader,
    build: GenerationBuild,
    other: &GenerationProgress,
    served: &PerShard<Position>,
) -> anyhow::Result<Vec<ShardBatch>> {
    let mut runs = Vec::new();
    for shard in Shard::all() {
        let (position, target) = (other.positions[shard.index()], served[shard.index()]);
        if position >= target {
            continue;
        }
        let events = read(&loader.pool, shard, position, target).await?;
        let accounts: Vec<_> = events
            .iter()
            .map(|event| event.recorded().account_id.uuid())
            .collect();
        let parked = parked_among(&loader.pool, &accounts)
            .await
            .context("cannot read which accounts are parked")?;
        let checkpoint = Checkpoint {
            generation: build.generation,
            epoch: other.epoch,
            position,
        };
        runs.push(ShardBatch {
            skipped: Skipped::within(&loader.pool, &[(shard, position + 1..=target)])
                .await
                .context("cannot read which events are left out")?,
            progress: Progress::of(shard, &[(build.projection, checkpoint)]),
            events,
            parked,
        });
    }
    Ok(runs)
}
