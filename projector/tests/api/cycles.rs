//! Runs cycles of followers until its shards are where a test wants them.

use std::time::{Duration, Instant};

use linkledger_core::shard::Shard;
use linkledger_projector::pipeline::followers::Followers;

use crate::fixture::Fixture;

/// Returns the lowest checkpoint of a shard.
pub(crate) async fn floor(fixture: &Fixture, shard: Shard) -> i64 {
    let floor =
        "SELECT min(position) FROM read_model.checkpoints WHERE shard = $1 AND role = 'live'";
    let floor = sqlx::query_scalar(floor).bind(shard.number());
    floor.fetch_one(fixture.database.pool()).await.unwrap()
}

/// Runs cycles until the shard is at the position.
pub(crate) async fn cycle_until(
    fixture: &Fixture,
    followers: &mut Followers,
    (shard, position): (Shard, i64),
) {
    let until = Instant::now() + Duration::from_mins(2);
    while floor(fixture, shard).await != position {
        assert!(Instant::now() < until, "shard {shard} is not at {position}");
        followers.cycle(Vec::new()).await.unwrap();
    }
}

/// Runs cycles until the followers have no work. A refused shard is checked again now and then, and must not make
/// the loop spin.
pub(crate) async fn cycle_until_idle(followers: &mut Followers) {
    for _ in 0..100 {
        followers.cycle(Vec::new()).await.unwrap();
        if !followers.has_work() {
            return;
        }
    }
    panic!("a refused shard makes the loop spin");
}
