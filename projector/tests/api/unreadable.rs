//! Events that cannot be read, because a page of the log is damaged.

use linkledger_core::{event_store::log, id::AccountId, shard::Shard};
use linkledger_testing::{damage_event, mend_log};

use crate::{
    restored::{cycle_until, floor},
    stage::Stage,
    tables::Tables,
};

/// Creates accounts in two shards.
async fn accounts_of_two_shards(stage: &Stage) -> [AccountId; 2] {
    let first = stage.account_with_links("first", 20).await;
    for number in 0.. {
        let other = stage
            .account_with_links(&format!("other-{number}"), 20)
            .await;
        if Shard::of(other) != Shard::of(first) {
            return [first, other];
        }
    }
    unreachable!("there are 16 shards")
}

async fn head(stage: &Stage, shard: Shard) -> i64 {
    log::heads(stage.database.pool()).await.unwrap()[shard.index()]
}

#[tokio::test]
async fn unreadable_event_stops_only_its_shard() {
    const UNREADABLE: i64 = 30;
    let stage = Stage::set().await;
    let [damaged, sound] = accounts_of_two_shards(&stage).await.map(Shard::of);
    damage_event(stage.database.pool(), damaged, UNREADABLE).await;
    let mut engine = stage.engine();
    cycle_until(&stage, &mut engine, (sound, head(&stage, sound).await)).await;
    // Events before the unreadable one are applied.
    cycle_until(&stage, &mut engine, (damaged, UNREADABLE - 1)).await;
    let mut was_idle = false;
    for _ in 0..100 {
        engine.cycle(Vec::new()).await.unwrap();
        was_idle |= !engine.has_work();
    }
    assert_eq!(floor(&stage, damaged).await, UNREADABLE - 1);
    assert!(was_idle, "a refused shard makes the loop spin");

    mend_log(stage.database.pool()).await;
    let end = (damaged, head(&stage, damaged).await);
    cycle_until(&stage, &mut engine, end).await;
    let tables = Tables::read(stage.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&stage.log().await));
}

#[tokio::test]
async fn delivered_event_that_log_cannot_read_stops_only_its_shard() {
    let stage = Stage::set().await;
    let [damaged, sound] = accounts_of_two_shards(&stage).await.map(Shard::of);
    let delivered = stage.log().await;
    let end = head(&stage, damaged).await;
    damage_event(stage.database.pool(), damaged, end).await;
    let mut engine = stage.engine();
    engine.cycle(delivered).await.unwrap();
    assert_eq!(floor(&stage, sound).await, head(&stage, sound).await);
    // The log cannot confirm the events of the topic.
    assert!(floor(&stage, damaged).await < end);

    mend_log(stage.database.pool()).await;
    cycle_until(&stage, &mut engine, (damaged, end)).await;
    let tables = Tables::read(stage.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&stage.log().await));
}
