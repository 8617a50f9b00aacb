//! Who has the lease of a shard publishes it, and who has lost it changes nothing.

use std::time::{Duration, Instant};

use linkledger_command_api::relay::cursor::{Lease, LeaseTable, Reached, Renewed};
use linkledger_core::shard::Shard;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::{Recorder, relay, stored, with_links};

fn reached(position: i64) -> Reached {
    Reached {
        position,
        offset: None,
    }
}

#[tokio::test]
async fn a_second_relay_publishes_nothing_until_the_lease_is_free() {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 1).await;
    let (first, second) = (Recorder::default(), Recorder::default());
    let mut leader = relay(&database, first.clone(), "one");
    leader.step().await.unwrap();
    // However long the other one takes.
    sqlx::query(
        "UPDATE event_store.relay_cursors SET lease_expires_at = now() + interval '1 hour'",
    )
    .execute(database.pool())
    .await
    .unwrap();
    let mut follower = relay(&database, second.clone(), "two");
    assert_eq!(follower.step().await.unwrap(), 0);
    assert_eq!((first.taken().len(), second.taken().len()), (2, 0));
    // The leader falls silent: its lease is run out by then.
    sqlx::query("UPDATE event_store.relay_cursors SET lease_expires_at = now() - interval '1 s'")
        .execute(database.pool())
        .await
        .unwrap();
    // How much of it is repeated depends on how far the leader had stored its cursor.
    testing::append_links(
        database.pool(),
        account_id,
        &[("later", "https://example.com")],
    )
    .await;
    let mut follower = relay(&database, second.clone(), "two");
    follower.step().await.unwrap();
    assert!(second.taken().ends_with(&[3, 4]), "{:?}", second.taken());
}

/// One that has lost its lease, and who has it now.
async fn zombie_and_successor(database: &TestDatabase, shard: Shard) -> [(LeaseTable, Lease); 2] {
    let zombie = LeaseTable::new(database.pool().clone(), "one".to_owned());
    let [(lease, cursor)] = zombie.acquire(&[shard], true).await.unwrap()[..] else {
        panic!("the lease was free");
    };
    assert_eq!((cursor.position, cursor.epoch), (0, 1));
    sqlx::query("UPDATE event_store.relay_cursors SET lease_expires_at = now() - interval '1 s'")
        .execute(database.pool())
        .await
        .unwrap();
    let successor = LeaseTable::new(database.pool().clone(), "two".to_owned());
    let [(new_lease, _)] = successor.acquire(&[shard], true).await.unwrap()[..] else {
        panic!("the lease had run out");
    };
    assert!(new_lease.epoch > lease.epoch);
    [(zombie, lease), (successor, new_lease)]
}

#[tokio::test]
async fn a_relay_that_lost_its_lease_can_not_condemn_the_topic() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 1).await);
    let [(zombie, lease), (successor, new_lease)] = zombie_and_successor(&database, shard).await;
    for (table, lease, expected) in [(zombie, lease, false), (successor, new_lease, true)] {
        table.note_topic_lost(lease).await.unwrap();
        let is_lost: bool =
            sqlx::query_scalar("SELECT bool_or(topic_lost) FROM event_store.relay_cursors")
                .fetch_one(database.pool())
                .await
                .unwrap();
        assert_eq!(is_lost, expected);
    }
}

#[tokio::test]
async fn a_relay_that_lost_its_lease_can_not_move_the_cursor() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 1).await);
    let [(zombie, lease), (successor, new_lease)] = zombie_and_successor(&database, shard).await;
    zombie.store(&[(lease, reached(2))]).await.unwrap();
    assert_eq!(stored(&database, shard).await, 0);
    assert_eq!(zombie.renew(&[lease]).await.unwrap(), Renewed::default());
    successor.store(&[(new_lease, reached(2))]).await.unwrap();
    assert_eq!(stored(&database, shard).await, 2);
    // Never back, not even by its owner.
    successor.store(&[(new_lease, reached(1))]).await.unwrap();
    assert_eq!(stored(&database, shard).await, 2);
}

#[tokio::test]
async fn a_relay_that_lost_a_lease_has_no_backlog_of_that_shard() {
    let metrics = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&metrics);
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 1).await);
    let shown = |name: &str| {
        let start = format!("linkledger_relay_{name}{{shard=\"{shard}\"}} ");
        let rendered = metrics.handle().render();
        let mut values = rendered
            .lines()
            .filter_map(|line| line.strip_prefix(&start));
        values.next().expect("it is shown").parse::<f64>().unwrap()
    };
    let broker = Recorder::default();
    *broker.takes.lock().unwrap() = Some(0);
    let mut relay = relay(&database, broker.clone(), "one");
    relay.step().await.unwrap_err();
    assert!(shown("backlog_events") > 0.0);
    assert!(shown("oldest_unpublished_age_seconds") > 0.0);
    sqlx::query(
        "UPDATE event_store.relay_cursors SET owner = 'two', lease_epoch = lease_epoch + 1,
             lease_expires_at = now() + interval '1 hour'",
    )
    .execute(database.pool())
    .await
    .unwrap();
    let until = Instant::now() + Duration::from_mins(2);
    while shown("backlog_events") > 0.0 || shown("oldest_unpublished_age_seconds") > 0.0 {
        assert!(Instant::now() < until, "the old backlog stays");
        // Takes nothing and fails, as long as it does not know of its loss.
        *broker.takes.lock().unwrap() = Some(0);
        relay.step().await.ok();
    }
}
