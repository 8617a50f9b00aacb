//! A snapshot of the database in which two generations are at the same place of every shard.
//!
//! The live checkpoints are held while what is new goes into the other generation and the snapshot
//! is taken, which is some milliseconds, and let go before anything is compared.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use sqlx::{Postgres, Transaction};
use tokio::time::{Instant, sleep};

use crate::{
    operations::rebuild::{
        Build,
        catch_up::{Goal, REST_EVENTS_MAX, rest},
        loading::Loader,
        reading::Readings,
    },
    pipeline::{
        checkpoint::{
            Role,
            generation::{Standing, lock_in_tx, standing},
        },
        retry,
    },
};

/// How long a snapshot is used: the server prunes nothing that was deleted since it was taken.
const USED_FOR_MAX: Duration = Duration::from_millis(400);
/// How long it is waited for that the generation that is served comes to where the other one is.
const BEHIND_TIME_MAX: Duration = Duration::from_secs(10);
/// Most attempts in a row to take a snapshot.
const ATTEMPTS_MAX: u32 = 100;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Snapshot {
    pub(super) tx: Transaction<'static, Postgres>,
    pub(super) build: Build,
    pub(super) expires_at: Instant,
}

/// Takes one, with the other generation brought to where the one is that is served; `None` if that
/// one stands still at an earlier place.
pub(super) async fn take(
    loader: &Loader,
    build: Build,
    readings: &mut Readings,
) -> anyhow::Result<Option<Snapshot>> {
    let begun_at = Instant::now();
    let mut failures = 0;
    loop {
        match attempt(loader, build, readings).await {
            Ok(Attempt::Taken(snapshot)) => return Ok(Some(snapshot)),
            Ok(Attempt::Behind) if begun_at.elapsed() > BEHIND_TIME_MAX => return Ok(None),
            Ok(Attempt::Behind) => {}
            Ok(Attempt::Moved) => failures += 1,
            Err(error) if retry::passes_by_itself(&error) => failures += 1,
            Err(error) => return Err(error),
        }
        ensure!(
            failures < ATTEMPTS_MAX,
            "the generation that is served moves on too fast to be compared with; run the command \
             again when fewer events come"
        );
        sleep(RETRY_INTERVAL).await;
    }
}

enum Attempt {
    Taken(Snapshot),
    /// The generation that is served has not come to where the other one is.
    Behind,
    /// It has moved on by more than can be waited for.
    Moved,
}

async fn attempt(
    loader: &Loader,
    build: Build,
    readings: &mut Readings,
) -> anyhow::Result<Attempt> {
    let Build {
        projection,
        generation,
        role,
        live,
    } = build;
    // What has come since the last one: little is left to do while the checkpoints are held.
    let served = Goal::Served.positions(&loader.pool, build).await?;
    loader.load_one(build, readings, &served).await?;
    let mut holder = loader.pool.begin().await.context("can't compare")?;
    // Nobody else locks those of the other generation, so that these may be held meanwhile.
    lock_in_tx(&mut holder, projection, &[live])
        .await
        .context("can't lock the checkpoints")?;
    let Some(served) = standing(&mut *holder, projection, live, Role::Live)
        .await
        .context("can't read the checkpoints")?
    else {
        bail!("generation {live} of `{projection}` is no longer served");
    };
    let other = build.standing(&loader.pool).await?;
    let (from, to) = (other.positions, served.positions);
    if rest(&to, &from) > 0 {
        return Ok(Attempt::Behind);
    }
    if rest(&from, &to) > REST_EVENTS_MAX {
        return Ok(Attempt::Moved);
    }
    loader.unbounded().load_one(build, readings, &to).await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let tx = loader.pool.begin_with(begin).await;
    let mut tx = tx.context("can't compare")?;
    // The first statement takes the snapshot.
    let served = standing(&mut *tx, projection, live, Role::Live).await;
    let served = served.context("can't read the checkpoints")?;
    let other = standing(&mut *tx, projection, generation, role).await;
    let other = other.context("can't read the checkpoints")?;
    holder.rollback().await.context("can't compare")?;
    let positions = |standing: Option<Standing>| standing.map(|it| it.positions);
    if served.is_none() || positions(served) != positions(other) {
        return Ok(Attempt::Moved);
    }
    Ok(Attempt::Taken(Snapshot {
        tx,
        build,
        expires_at: Instant::now() + USED_FOR_MAX,
    }))
}
