//! The event store helps where the topic brings nothing.

use linkledger_core::shard::Shard;

use crate::{stage::Stage, tables::Tables};

#[tokio::test]
async fn events_that_never_reach_the_topic_are_caught_up() {
    let stage = Stage::set().await;
    let projector = stage.projector("group").await;
    for name in ["first", "second"] {
        stage.account_with_links(name, 20).await;
    }
    stage.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn a_long_way_is_caught_up_in_chunks() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("long", 3_000).await;
    let log = stage.log().await;
    let mut engine = stage.engine();
    // The last one tells that there are others before it.
    engine
        .cycle(vec![log[log.len() - 1].clone()])
        .await
        .unwrap();
    let first = Tables::read(stage.database.pool()).await;
    let shard = Shard::of(account_id).number();
    assert_eq!(first.checkpoints[&("links".to_owned(), shard)], 4_000);
    assert!(engine.is_behind());
    engine.cycle(Vec::new()).await.unwrap();
    assert!(!engine.is_behind());
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn much_of_several_shards_is_applied_whole_in_one_cycle() {
    let stage = Stage::set().await;
    // Far more than two transactions are worth.
    for number in 0..8 {
        stage
            .account_with_links(&format!("much-{number}"), 200)
            .await;
    }
    let log = stage.log().await;
    let mut engine = stage.engine();
    engine.cycle(log.clone()).await.unwrap();
    assert!(!engine.is_behind());
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn shards_that_the_group_may_have_given_away_are_served_until_somebody_else_does() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("kept", 1).await;
    let shard = Shard::of(account_id);
    let mut orphan = stage.engine();
    orphan.cycle(stage.log().await).await.unwrap();
    orphan.keep_until_contested(&[shard]);
    stage.append_links(account_id, "meanwhile", 1).await;
    orphan.cycle(stage.log().await).await.unwrap();
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&stage.log().await)
    );

    let mut heir = stage.engine();
    stage.append_links(account_id, "inherited", 1).await;
    heir.cycle(stage.log().await).await.unwrap();
    stage.append_links(account_id, "too-late", 1).await;
    let log = stage.log().await;
    orphan.cycle(log.clone()).await.unwrap();
    orphan.cycle(log.clone()).await.unwrap();
    assert_ne!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
    heir.cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}
