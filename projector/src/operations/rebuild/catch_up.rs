//! How far a generation has to go: to where the one is that is served, to be compared with it, and
//! to the head of the log, to be served itself.

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{
    event_store::log::{self, PerShard},
    shard::{Position, Shard},
};
use sqlx::PgPool;

use super::{Build, loading::Loader, reading::Readings};
use crate::{
    pipeline::{
        checkpoint::{Role, generation::standing},
        engine::refusal::Refusal,
    },
    read_models::Projection,
};

/// Fewer events than this are applied while the live checkpoints are held.
pub(super) const REST_EVENTS_MAX: u64 = 1_000;
/// Most rounds, each of which is as long as what has come during the one before.
const ROUNDS_MAX: u32 = 1_000;
/// Most rounds in a row after which there is not less to do than before.
const ROUNDS_IN_VAIN_MAX: u32 = 10;

/// Where a generation is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// To where the generation is that is served.
    Served,
    /// To where the log ends.
    Head,
}

impl Goal {
    /// The places.
    pub(super) async fn positions(
        self,
        pool: &PgPool,
        build: Build,
    ) -> anyhow::Result<PerShard<Position>> {
        match self {
            Self::Head => log::heads(pool)
                .await
                .context("can't read the heads of the log"),
            Self::Served => {
                let Build {
                    projection, live, ..
                } = build;
                let served = standing(pool, projection, live, Role::Live)
                    .await
                    .context("can't read the checkpoints")?;
                let served = served.with_context(|| {
                    format!("generation {live} of `{projection}` is no longer served")
                })?;
                Ok(served.positions)
            }
        }
    }
}

/// Whether the generation that is served speaks of the same log: after a restore that lost events
/// it does not, and says nothing to compare with.
///
/// # Errors
/// When the log has lost events and was not given another epoch, or the database does not answer.
pub(super) async fn is_comparable(
    pool: &PgPool,
    projection: Projection,
    live: i32,
) -> anyhow::Result<bool> {
    // In this order: what is read later is not behind.
    let served = standing(pool, projection, live, Role::Live)
        .await
        .context("can't read the checkpoints")?;
    let end = log::end(pool)
        .await
        .context("can't read the heads of the log")?;
    let Some(served) = served.filter(|it| it.epoch == end.epoch) else {
        return Ok(false);
    };
    for shard in Shard::all() {
        let (position, head) = (served.positions[shard.index()], end.heads[shard.index()]);
        if let Some(refusal) = Refusal::beyond((projection, position), (shard, head)) {
            bail!(refusal);
        }
    }
    Ok(true)
}

/// Loads until little is left up to there; the log is read once for all of the builds.
pub(super) async fn catch_up(
    loader: &Loader,
    builds: &[Build],
    readings: &mut [Readings],
    goal: Goal,
) -> anyhow::Result<()> {
    let (mut in_vain, mut before) = (0, u64::MAX);
    for _ in 0..ROUNDS_MAX {
        // Whatever is served: nothing is beyond the head.
        let mut targets = log::heads(&loader.pool)
            .await
            .context("can't read the heads of the log")?;
        let mut floor = targets;
        for build in builds {
            let goal = goal.positions(&loader.pool, *build).await?;
            targets = lower(&targets, &goal);
            floor = lower(&floor, &build.standing(&loader.pool).await?.positions);
        }
        let left = rest(&floor, &targets);
        if left == 0 {
            return Ok(());
        }
        loader.progress.expect(left);
        loader.load(builds, readings, &targets).await?;
        if left <= REST_EVENTS_MAX {
            return Ok(());
        }
        in_vain = if left < before { 0 } else { in_vain + 1 };
        before = left;
        ensure!(
            in_vain < ROUNDS_IN_VAIN_MAX,
            "events come as fast as they are read: raise --max-rate and run the command again, it \
             goes on from here"
        );
    }
    Ok(())
}

/// In each shard the lower of both.
fn lower(one: &PerShard<Position>, other: &PerShard<Position>) -> PerShard<Position> {
    std::array::from_fn(|shard| one[shard].min(other[shard]))
}

/// How many events lead from one to the other.
pub(super) fn rest(from: &PerShard<Position>, to: &PerShard<Position>) -> u64 {
    let rests = from.iter().zip(to).map(|(from, to)| (to - from).max(0));
    rests.sum::<Position>().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_is_ahead_makes_up_for_none_that_is_behind() {
        let (mut from, mut to) = (PerShard::default(), PerShard::default());
        (from[0], to[0]) = (10, 12);
        (from[1], to[1]) = (20, 5);
        assert_eq!(rest(&from, &to), 2);
    }
}
