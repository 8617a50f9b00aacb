//! The swap: in one short transaction another generation is served, at the place where the one
//! before was, or further.
//!
//! Readers are not in its way: each of their statements takes the active generation by itself. The
//! projector meets checkpoints that are no longer live, and reads them again. Redirect caches forget
//! everything when they see another generation.

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
    Build,
    catch_up::{REST_EVENTS_MAX, catch_up, rest},
    generation::{Phase, activate_in_tx, is_in_tx},
    loading::Loader,
    parked::WouldPark,
    reading::{Readings, ensure_complete, read},
};
use crate::{
    operations::audit::ensure_held_in_tx,
    pipeline::{
        apply::{Run, Target, Written, apply_in_tx},
        checkpoint::{
            Checkpoint, Role,
            generation::{Standing, exchange_in_tx, lock_in_tx, standing},
        },
        parking::table::parked_among,
        progress::Progress,
        retry,
    },
    read_models::skipped::Skipped,
};

/// Most attempts, each of which begins by catching up.
const ATTEMPTS_MAX: u32 = 50;
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// After so many attempts the served generation has come to where this one is, and has parked whom
/// it parks.
const REFUSALS_MAX: u32 = 20;

enum Attempt {
    Done,
    /// More is left to apply than fits into the transaction, or it can't be applied like that.
    TooFar,
    /// Accounts that are served would be so no longer.
    WouldPark(WouldPark),
}

/// Has the generation served, once it has everything.
///
/// # Errors
/// When something else is served by now, the log is faster, or the database does not answer.
pub(super) async fn swap(
    loader: &Loader,
    build: Build,
    readings: &mut Readings,
) -> anyhow::Result<()> {
    let mut refusals = 0;
    for _ in 0..ATTEMPTS_MAX {
        catch_up(loader, &[build], std::slice::from_mut(readings)).await?;
        match attempt(loader, build, readings).await {
            Ok(Attempt::Done) => return Ok(()),
            Ok(Attempt::TooFar) => {}
            Ok(Attempt::WouldPark(would_park)) => {
                refusals += 1;
                if !would_park.release_any(loader, build).await? && refusals >= REFUSALS_MAX {
                    let Build {
                        projection,
                        generation,
                        live,
                        ..
                    } = build;
                    bail!(
                        "generation {generation} of `{projection}` can't take the place of \
                         generation {live}, which is served still: {would_park}"
                    );
                }
            }
            Err(error) if retry::passes_by_itself(&error) || is_refusal(&error) => {
                // Unless the answer to COMMIT was lost.
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
    bail!("events come too fast for a swap: run the command again, it goes on from here")
}

fn is_refusal(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<sqlx::Error>()
        .is_some_and(retry::is_refusal)
}

async fn attempt(
    loader: &Loader,
    build: Build,
    readings: &mut Readings,
) -> anyhow::Result<Attempt> {
    let Build {
        projection, role, ..
    } = build;
    let mut tx = loader.pool.begin().await.context("can't swap")?;
    let (served, other) = lock_both_in_tx(&mut tx, build).await?;
    fail_point::reached("swap.locked");
    // Of an earlier epoch nothing can be left to do.
    let is_same_log = served.epoch == other.epoch;
    if is_same_log && rest(&other.positions, &served.positions) > REST_EVENTS_MAX {
        return Ok(Attempt::TooFar);
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
    let target = Target {
        projections: &[projection],
        role,
    };
    let written = apply_in_tx(&loader.pool, &mut tx, &runs, target)
        .await
        .context("can't apply events")?;
    if written != Written::All {
        return Ok(Attempt::TooFar);
    }
    // Of an earlier epoch nothing follows: there, nobody ever comes to where this one is.
    if is_same_log && let Some(would_park) = WouldPark::of(&mut tx, build).await? {
        return Ok(Attempt::WouldPark(would_park));
    }
    serve_in_tx(&mut tx, build).await?;
    // What operators are told has happened.
    sqlx::query!("SET LOCAL synchronous_commit = on")
        .execute(&mut *tx)
        .await
        .context("can't swap")?;
    fail_point::reached("swap.written");
    tx.commit().await.context("can't swap")?;
    fail_point::reached("swap.committed");
    Ok(Attempt::Done)
}

/// Where the served generation stands, and the other one; both stay there, and stay what they are,
/// until the end of the transaction.
async fn lock_both_in_tx(
    tx: &mut PgConnection,
    build: Build,
) -> anyhow::Result<(Standing, Standing)> {
    let Build {
        projection,
        generation,
        role,
        live,
    } = build;
    ensure_held_in_tx(tx).await?;
    lock_in_tx(tx, projection, &[live, generation])
        .await
        .context("can't lock the checkpoints")?;
    let served = standing(&mut *tx, projection, live, Role::Live).await;
    let other = standing(&mut *tx, projection, generation, role).await;
    let served = served.context("can't read the checkpoints")?;
    let other = other.context("can't read the checkpoints")?;
    let (Some(served), Some(other)) = (served, other) else {
        bail!("the generations of `{projection}` are not what they were: somebody else swaps them");
    };
    let ready = match role {
        Role::Standby => Phase::Standby,
        Role::Building | Role::Live => Phase::Ready,
    };
    ensure!(
        is_in_tx(tx, projection, generation, ready)
            .await
            .context("can't read what the generation is for")?,
        "generation {generation} of `{projection}` is no longer ready to be served: somebody else \
         works on it; `projector status` shows what it is"
    );
    Ok((served, other))
}

/// From the end of the transaction on, the generation is served.
async fn serve_in_tx(tx: &mut PgConnection, build: Build) -> anyhow::Result<()> {
    let Build {
        projection,
        generation,
        live,
        ..
    } = build;
    let exchanged = exchange_in_tx(&mut *tx, projection, live, generation)
        .await
        .context("can't exchange the checkpoints")?;
    ensure!(
        exchanged == 2 * Shard::all().count() as u64,
        "the checkpoints of `{projection}` are not one for each shard"
    );
    activate_in_tx(&mut *tx, projection, live, generation)
        .await
        .context("can't have the generation served")?;
    Ok(())
}

/// What the generation lacks of each shard.
async fn runs_between(
    loader: &Loader,
    build: Build,
    other: &Standing,
    served: &PerShard<Position>,
) -> anyhow::Result<Vec<Run>> {
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
            .context("can't read which accounts are parked")?;
        let checkpoint = Checkpoint {
            generation: build.generation,
            epoch: other.epoch,
            position,
        };
        runs.push(Run {
            skipped: Skipped::within(&loader.pool, &[(shard, position + 1..=target)])
                .await
                .context("can't read which events are left out")?,
            progress: Progress::of(shard, &[(build.projection, checkpoint)]),
            events,
            parked,
        });
    }
    Ok(runs)
}
