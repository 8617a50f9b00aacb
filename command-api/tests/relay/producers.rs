//! Registrations of producers: their beginning, their end, and a republish that waits for them.

use futures::FutureExt as _;
use linkledger_command_api::relay::{
    lease::{Lease, LeaseTable},
    producers::ProducerRegistration,
    publisher::EventPublisher as _,
};
use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_service::lifecycle::Tasks;
use linkledger_testing::{TestBroker, TestDatabase};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    fixture::{Recorder, relay, step_until_stored, stored, with_links},
    pause::{status, step_until},
    republish::{EVENTS, publisher, refusal, republish, republished},
};

async fn leased(database: &TestDatabase, owner: &str) -> Lease {
    let table = LeaseTable::new(database.pool().clone(), owner.to_owned());
    let (lease, _) = table.acquire(true).await.unwrap().expect("a free lease");
    lease
}

/// Registers a producer for a process that never ends the registration.
async fn register(database: &TestDatabase, owner: &str) -> ProducerRegistration {
    let pool = database.pool().clone();
    let mut registration = ProducerRegistration::new(pool, owner.to_owned());
    registration
        .register(leased(database, owner).await)
        .await
        .unwrap();
    registration
}

async fn run(database: &TestDatabase, sql: &'static str) {
    sqlx::query(sql).execute(database.pool()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_close_is_finished_by_the_next() {
    let database = TestDatabase::create().await;
    with_links(&database, 3).await;
    let broker = TestBroker::embedded();
    let publisher = publisher(&broker);
    let from: Vec<_> = Shard::all()
        .map(|shard| ReadFrom { shard, after: 0 })
        .collect();
    let events = log::read_after(database.pool(), &from, 100).await.unwrap();
    let events: Vec<_> = events
        .into_iter()
        .map(|event| PublishedEvent::new(event, 1))
        .collect();
    assert!(publisher.publish(&events).await.failure.is_none());

    broker.cluster().broker_down(1).unwrap();
    let given_up = publisher.publish(&events).now_or_never();
    assert!(given_up.is_none(), "nobody can have acknowledged them");
    let dropped = publisher.close().now_or_never();
    assert_eq!(dropped, None, "the producer waits for answers");
    assert!(!publisher.close().await, "they were not answered");
    assert!(publisher.close().await, "nothing was sent since");
}

#[tokio::test(flavor = "multi_thread")]
async fn republish_waits_for_killed_process_records() {
    let (database, broker) = (TestDatabase::create().await, TestBroker::embedded());
    let shard = Shard::of(with_links(&database, 3).await);
    let mut killed = relay(&database, Recorder::default(), "one");
    step_until_stored(&mut killed, &database, (shard, EVENTS)).await;
    drop(killed);
    let mut other = relay(&database, Recorder::default(), "two");
    step_until(&mut other, "it has the leases", async || {
        status(&database)["producers"] == json!(["one", "two"])
    })
    .await;
    // The leases are another's by then: it gets none, and makes no producer.
    let mut restarted = relay(&database, Recorder::default(), "one");
    restarted.step().await.unwrap();

    let shutdown = CancellationToken::new();
    let mut tasks = Tasks::new(shutdown.clone());
    tasks.spawn_essential("one", restarted.run(shutdown.clone()));
    tasks.spawn_essential("two", other.run(shutdown.clone()));
    let waits = refusal(&republish(&database, &broker, &["--from", "0"]));
    let expected = "error: a producer of one has ended, perhaps while requests were unanswered; \
                    they may arrive until 20";
    assert!(waits.starts_with(expected), "{waits}");
    run(
        &database,
        "UPDATE event_store.relay_producers SET settles_at = now() - interval '1 second'
         WHERE settles_at > now() + interval '1 minute'",
    )
    .await;
    republished(&republish(&database, &broker, &["--from", "0"]));
    shutdown.cancel();
    tasks.join().await.unwrap();
}

#[tokio::test]
async fn process_ends_only_its_own_registration() {
    let database = TestDatabase::create().await;
    let mut former = register(&database, "one").await;
    let mut present = register(&database, "one").await;
    former.end(true).await.unwrap();
    assert_eq!(status(&database)["producers"], json!(["one"]));
    present.end(true).await.unwrap();
    assert_eq!(status(&database)["producers"], json!([]));
}

#[tokio::test]
async fn only_a_successful_republish_deletes_registrations() {
    let (database, broker) = (TestDatabase::create().await, TestBroker::embedded());
    with_links(&database, 3).await;
    for owner in ["one", "two"] {
        register(&database, owner).await;
        run(
            &database,
            "UPDATE event_store.relay_cursors SET lease_expires_at = now()",
        )
        .await;
    }
    let waits = refusal(&republish(
        &database,
        &broker,
        &["--from", "0", "--ended", "one"],
    ));
    assert!(
        waits.starts_with("error: two does not say that its producer has ended"),
        "{waits}"
    );
    assert_eq!(status(&database)["producers"], json!(["one", "two"]));
    let both = ["--from", "0", "--ended", "one", "--ended", "two"];
    republished(&republish(&database, &broker, &both));
    assert_eq!(status(&database)["producers"], json!([]));
}

#[tokio::test]
async fn process_with_lease_has_not_ended() {
    let (database, broker) = (TestDatabase::create().await, TestBroker::embedded());
    let shard = Shard::of(with_links(&database, 3).await);
    register(&database, "one").await;
    run(
        &database,
        "UPDATE event_store.relay_cursors SET lease_expires_at = now() + interval '1 hour'",
    )
    .await;
    let runs = refusal(&republish(
        &database,
        &broker,
        &["--from", "0", "--ended", "one"],
    ));
    assert!(runs.starts_with("error: one has not ended"), "{runs}");
    let shown = status(&database);
    assert_eq!(shown["producers"], json!(["one"]));
    assert_eq!(shown["paused"], Value::Null);
    assert_eq!(stored(&database, shard).await, 0);
}
