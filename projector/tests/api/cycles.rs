//! Runs cycles of an engine until its shards are where a test wants them.

use std::time::{Duration, Instant};

use linkledger_core::shard::Shard;
use linkledger_projector::pipeline::engine::Engine;

use crate::stage::Stage;

/// Returns the lowest checkpoint of a shard.
pub(crate) async fn floor(stage: &Stage, shard: Shard) -> i64 {
    let floor =
        "SELECT min(position) FROM read_model.checkpoints WHERE shard = $1 AND role = 'live'";
    let floor = sqlx::query_scalar(floor).bind(shard.number());
    floor.fetch_one(stage.database.pool()).await.unwrap()
}

/// Runs cycles until the shard is at the position.
pub(crate) async fn cycle_until(
    stage: &Stage,
    engine: &mut Engine,
    (shard, position): (Shard, i64),
) {
    let until = Instant::now() + Duration::from_mins(2);
    while floor(stage, shard).await != position {
        assert!(Instant::now() < until, "shard {shard} is not at {position}");
        engine.cycle(Vec::new()).await.unwrap();
    }
}

/// Runs cycles until the engine has no work. A refused shard is checked again now and then, and must not make
/// the loop spin.
pub(crate) async fn cycle_until_idle(engine: &mut Engine) {
    for _ in 0..100 {
        engine.cycle(Vec::new()).await.unwrap();
        if !engine.has_work() {
            return;
        }
    }
    panic!("a refused shard makes the loop spin");
}
