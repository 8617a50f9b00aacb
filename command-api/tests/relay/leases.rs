//! The lease of the relay: its owner publishes, and a former owner changes nothing.

use std::time::{Duration, Instant};

use linkledger_command_api::relay::lease::{AcknowledgedPosition, Lease, LeaseTable, Renewal};
use linkledger_core::shard::Shard;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::fixture::{Recorder, relay, stored, with_links};

fn acknowledged(shard: Shard, position: i64) -> AcknowledgedPosition {
    AcknowledgedPosition {
        shard,
        position,
        offset: None,
    }
}

#[tokio::test]
async fn second_relay_waits_for_the_lease() {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 1).await;
    let (first, second) = (Recorder::default(), Recorder::default());
    let mut leader = relay(&database, first.clone(), "one");
    leader.step().await.unwrap();
    // The lease stays valid however slow the test is.
    sqlx::query(
        "UPDATE event_store.relay_cursors SET lease_expires_at = now() + interval '1 hour'",
    )
    .execute(database.pool())
    .await
    .unwrap();
    let mut follower = relay(&database, second.clone(), "two");
    assert_eq!(follower.step().await.unwrap(), 0);
    assert_eq!((first.taken().len(), second.taken().len()), (2, 0));
    // The leader stops, and its lease expires.
    sqlx::query("UPDATE event_store.relay_cursors SET lease_expires_at = now() - interval '1 s'")
        .execute(database.pool())
        .await
        .unwrap();
    // The number of repetitions depends on the stored cursor of the leader.
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

/// Returns a lease that has expired, and the lease of its successor.
async fn zombie_and_successor(database: &TestDatabase) -> [(LeaseTable, Lease); 2] {
    let zombie = LeaseTable::new(database.pool().clone(), "one".to_owned());
    let (lease, acknowledged) = zombie.acquire(true).await.unwrap().expect("a free lease");
    assert_eq!(acknowledged.len(), 16);
    assert!(acknowledged.iter().all(|of| of.position == 0));
    sqlx::query("UPDATE event_store.relay_cursors SET lease_expires_at = now() - interval '1 s'")
        .execute(database.pool())
        .await
        .unwrap();
    let successor = LeaseTable::new(database.pool().clone(), "two".to_owned());
    let acquired = successor.acquire(true).await.unwrap();
    let (new_lease, _) = acquired.expect("an expired lease");
    assert_ne!(new_lease, lease);
    [(zombie, lease), (successor, new_lease)]
}

#[tokio::test]
async fn relay_without_lease_cannot_record_lost_topic() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 1).await);
    let [(zombie, lease), (successor, new_lease)] = zombie_and_successor(&database).await;
    for (table, lease, expected) in [(zombie, lease, false), (successor, new_lease, true)] {
        table.record_topic_lost(lease, shard).await.unwrap();
        let is_lost: bool =
            sqlx::query_scalar("SELECT bool_or(topic_lost) FROM event_store.relay_cursors")
                .fetch_one(database.pool())
                .await
                .unwrap();
        assert_eq!(is_lost, expected);
    }
}

#[tokio::test]
async fn relay_without_lease_cannot_move_the_cursor() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 1).await);
    let [(zombie, lease), (successor, new_lease)] = zombie_and_successor(&database).await;
    let [one, two] = [1, 2].map(|position| [acknowledged(shard, position)]);
    zombie.store(lease, &two).await.unwrap();
    assert_eq!(stored(&database, shard).await, 0);
    assert_eq!(zombie.renew(lease).await.unwrap(), Renewal::Lost);
    assert_eq!(successor.renew(new_lease).await.unwrap(), Renewal::Kept);
    successor.store(new_lease, &two).await.unwrap();
    assert_eq!(stored(&database, shard).await, 2);
    // The owner of the lease cannot move the cursor back either.
    successor.store(new_lease, &one).await.unwrap();
    assert_eq!(stored(&database, shard).await, 2);
}

/// Another process with one shard prevents the lease.
#[tokio::test]
async fn lease_covers_all_shards_or_none() {
    let database = TestDatabase::create().await;
    let lease = |expires_at: &str| {
        sqlx::AssertSqlSafe(format!(
            "UPDATE event_store.relay_cursors
             SET owner = 'two', lease_epoch = 7, lease_expires_at = {expires_at} WHERE shard = 3"
        ))
    };
    let table = LeaseTable::new(database.pool().clone(), "one".to_owned());
    for (expires_at, is_free) in [("now() + interval '1 hour'", false), ("now()", true)] {
        sqlx::query(lease(expires_at))
            .execute(database.pool())
            .await
            .unwrap();
        let acquired = table.acquire(false).await.unwrap();
        assert_eq!(acquired.is_some(), is_free);
    }
    let epochs: Vec<i64> =
        sqlx::query_scalar("SELECT DISTINCT lease_epoch FROM event_store.relay_cursors")
            .fetch_all(database.pool())
            .await
            .unwrap();
    assert_eq!(epochs, [8]);
    // Its own unexpired lease counts as another's, except after a restart.
    let lengthened =
        "UPDATE event_store.relay_cursors SET lease_expires_at = now() + interval '1 hour'";
    sqlx::query(lengthened)
        .execute(database.pool())
        .await
        .unwrap();
    assert!(table.acquire(false).await.unwrap().is_none());
    assert!(table.acquire(true).await.unwrap().is_some());
}

#[tokio::test]
async fn relay_without_lease_reports_no_backlog() {
    let metrics = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&metrics);
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 1).await);
    let start = format!("linkledger_relay_oldest_unpublished_age_seconds{{shard=\"{shard}\"}} ");
    let oldest_age = || {
        let rendered = metrics.handle().render();
        let mut values = rendered
            .lines()
            .filter_map(|line| line.strip_prefix(&start));
        values.next().expect("it is shown").parse::<f64>().unwrap()
    };
    let broker = Recorder::default();
    broker.take_only(0);
    let mut relay = relay(&database, broker.clone(), "one");
    relay.step().await.unwrap_err();
    assert!(oldest_age() > 0.0);
    sqlx::query(
        "UPDATE event_store.relay_cursors SET owner = 'two', lease_epoch = lease_epoch + 1,
             lease_expires_at = now() + interval '1 hour'",
    )
    .execute(database.pool())
    .await
    .unwrap();
    let until = Instant::now() + Duration::from_mins(2);
    while oldest_age() > 0.0 {
        assert!(Instant::now() < until, "the old backlog stays");
        // The relay publishes nothing and fails until it notices the loss of the lease.
        broker.take_only(0);
        relay.step().await.ok();
    }
}
