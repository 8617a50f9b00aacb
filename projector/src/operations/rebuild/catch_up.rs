//! Catching up: loads a generation up to the head of the log.

use anyhow::{Context as _, bail, ensure};
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::log::{self, PerShard};
use linkledger_service::{databases::Databases, log_identity};

use super::{GenerationBuild, loading::Loader};
use crate::{
    pipeline::{
        checkpoint::{Checkpoint, Role, generation::generation_progress},
        followers::refusal::Refusal,
    },
    read_models::Projection,
};

/// Most events that are applied while the live checkpoints are locked.
pub(super) const REST_EVENTS_MAX: u64 = 1_000;
/// Most rounds; each round loads the events that were appended during the round before.
const ROUNDS_MAX: u32 = 1_000;
/// Most rounds in a row that do not shorten the distance to the head.
const ROUNDS_IN_VAIN_MAX: u32 = 10;

/// Returns true if the served generation is of the same epoch as the log. After a restore that lost
/// events, the served generation is of an earlier epoch.
///
/// # Errors
/// Returns an error if the read tables are of another log, if the log has lost events and its epoch was
/// not raised, or if the database fails.
pub(super) async fn is_same_log(
    databases: &Databases,
    projection: Projection,
    live: i32,
) -> anyhow::Result<bool> {
    log_identity::check(databases).await?;
    // The log is read after the checkpoints: a checkpoint read first is never beyond its head.
    let served = generation_progress(&databases.read, projection, live, Role::Live)
        .await
        .context("cannot read the checkpoints")?;
    let end = log::end(&databases.log)
        .await
        .context("cannot read the heads of the log")?;
    let Some(served) = served.filter(|standing| standing.epoch == end.epoch) else {
        return Ok(false);
    };
    for shard in Shard::all() {
        let head = end.heads[shard.index()];
        let checkpoint = Checkpoint {
            generation: live,
            epoch: served.epoch,
            position: served.positions[shard.index()],
        };
        if let Some(refusal) = Refusal::if_beyond_head((projection, shard), checkpoint, head) {
            bail!(refusal);
        }
    }
    Ok(true)
}

/// Loads events until few are left up to the head of the log; the log is read once for all builds.
pub(super) async fn catch_up(loader: &Loader, builds: &[GenerationBuild]) -> anyhow::Result<()> {
    log_identity::check(&loader.databases).await?;
    let (mut in_vain, mut before) = (0, u64::MAX);
    for _ in 0..ROUNDS_MAX {
        let heads = log::heads(&loader.databases.log)
            .await
            .context("cannot read the heads of the log")?;
        let mut floor = heads;
        for build in builds {
            let positions = build.standing(&loader.databases.read).await?.positions;
            floor = std::array::from_fn(|shard| floor[shard].min(positions[shard]));
        }
        let left = rest(&floor, &heads);
        if left == 0 {
            return Ok(());
        }
        loader.progress.set_remaining(left);
        loader.load(builds, &floor, &heads).await?;
        if left <= REST_EVENTS_MAX {
            return Ok(());
        }
        in_vain = if left < before { 0 } else { in_vain + 1 };
        before = left;
        ensure!(
            in_vain < ROUNDS_IN_VAIN_MAX,
            "events are appended as fast as they are read: raise --max-rate and run the command \
             again, it continues from here"
        );
    }
    Ok(())
}

/// Returns the number of events between two sets of positions; a shard that is ahead counts 0.
pub(super) fn rest(from: &PerShard<Position>, to: &PerShard<Position>) -> u64 {
    let rests = from.iter().zip(to).map(|(from, to)| (to - from).max(0));
    rests.sum::<Position>().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_ahead_does_not_offset_lagging_shard() {
        let (mut from, mut to) = (PerShard::default(), PerShard::default());
        (from[0], to[0]) = (10, 12);
        (from[1], to[1]) = (20, 5);
        assert_eq!(rest(&from, &to), 2);
    }
}
