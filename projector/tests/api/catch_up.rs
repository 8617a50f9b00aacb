//! Events that the topic lacks are read from the event store.

use linkledger_core::shard::Shard;

use crate::{stage::Stage, tables::Tables};

#[tokio::test]
async fn unpublished_events_are_read_from_event_store() {
    let stage = Stage::set().await;
    let projector = stage.projector().await;
    for name in ["first", "second"] {
        stage.account_with_links(name, 20).await;
    }
    stage.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn long_backlog_is_caught_up_in_chunks() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("long", 3_000).await;
    let log = stage.log().await;
    let mut followers = stage.followers();
    followers
        .cycle(vec![log[log.len() - 1].clone()])
        .await
        .unwrap();
    let first = Tables::read(stage.database.pool()).await;
    let shard = Shard::of(account_id).number();
    assert_eq!(first.checkpoints[&("links".to_owned(), shard)], 4_000);
    assert!(followers.has_work());
    followers.cycle(Vec::new()).await.unwrap();
    assert!(!followers.has_work());
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn large_delivery_is_applied_in_one_cycle() {
    let stage = Stage::set().await;
    // Enough events for two parallel transactions.
    for number in 0..8 {
        stage
            .account_with_links(&format!("much-{number}"), 200)
            .await;
    }
    let log = stage.log().await;
    let mut followers = stage.followers();
    followers.cycle(log.clone()).await.unwrap();
    assert!(!followers.has_work());
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}
