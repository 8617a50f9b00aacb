//! `relay republish`: publishing the log again.

use std::process::Output;

use linkledger_command_api::relay::{
    lease::LeaseTable,
    producers::ProducerRegistration,
    publisher::KafkaPublisher,
    republish::{self, Republish},
};
use linkledger_core::shard::Shard;
use linkledger_service::lifecycle::Tasks;
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase, stream::Stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    cli,
    fixture::{Recorder, relay, step_until_stored, stored, with_links},
    pause::{PAUSE, RESUME, status, step_until},
};

/// Number of events of three links.
pub(crate) const EVENTS: i64 = 6;

pub(crate) fn publisher(broker: &TestBroker) -> KafkaPublisher {
    KafkaPublisher::new(&broker.config(), "lz4").unwrap()
}

pub(crate) fn republish(
    database: &TestDatabase,
    broker: &TestBroker,
    arguments: &[&str],
) -> Output {
    let (brokers, topic) = (broker.bootstrap_servers(), broker.topic());
    let to = [
        "relay",
        "republish",
        "--kafka-brokers",
        &brokers,
        "--kafka-topic",
        topic,
        "--json",
    ];
    cli::run(database.url(), &[&to[..], arguments].concat())
}

pub(crate) fn republished(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Creates a database whose events a relay has published to the broker.
pub(crate) async fn published_to(broker: &TestBroker) -> (TestDatabase, Shard) {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    publish_all(&database, broker, shard).await;
    (database, shard)
}

/// Publishes all events by a relay that is shut down afterwards.
async fn publish_all(database: &TestDatabase, broker: &TestBroker, shard: Shard) {
    let shutdown = CancellationToken::new();
    let mut tasks = Tasks::new(shutdown.clone());
    tasks.spawn_essential(
        "relay",
        relay(database, publisher(broker), "one").run(shutdown.clone()),
    );
    testing::eventually("all is published", || async {
        (stored(database, shard).await == EVENTS).then_some(())
    })
    .await;
    shutdown.cancel();
    tasks.join().await.unwrap();
}

async fn records(broker: &TestBroker) -> usize {
    let stream = Stream::read(&broker.config()).await;
    stream.records.iter().map(Vec::len).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn other_cluster_is_refused_until_republish() {
    let (former, present) = (TestBroker::embedded(), TestBroker::start().await);
    let (database, shard) = published_to(&former).await;
    let shutdown = CancellationToken::new();
    let mut tasks = Tasks::new(shutdown.clone());
    let moved = relay(&database, publisher(&present), "one");
    tasks.spawn_essential("relay", moved.run(shutdown.clone()));
    let refused = testing::eventually("it is refused", || async {
        let refusal = &status(&database)["shards"][shard.index()]["refusal"];
        refusal.as_str().map(str::to_owned)
    })
    .await;
    assert!(refused.starts_with("what was published lies in the Kafka cluster "));
    assert!(
        refused.contains("`command-api relay republish --from 0`"),
        "{refused}"
    );
    assert_eq!(records(&present).await, 0);

    // The running relay accepts the republish without a restart.
    let shown = republished(&republish(&database, &present, &["--from", "0"]));
    assert_eq!(
        (&shown["events"], &shown["paused"]),
        (&json!(EVENTS), &json!(false))
    );
    testing::eventually("all is published", || async {
        let shown = status(&database);
        let shown = &shown["shards"][shard.index()];
        let is_done = shown["position"] == EVENTS && shown["refusal"].is_null();
        is_done.then_some(())
    })
    .await;
    assert_eq!(
        Stream::assert_is_the_log(&present.config(), database.pool()).await,
        0
    );
    let shown = &status(&database)["shards"][shard.index()];
    assert_eq!(shown["record_offset"], EVENTS - 1);
    shutdown.cancel();
    tasks.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn republish_needs_empty_topic_and_existing_position() {
    let (former, broker) = (TestBroker::embedded(), TestBroker::start().await);
    let (database, shard) = published_to(&former).await;
    let position = (EVENTS + 1).to_string();
    let beyond = refusal(&republish(&database, &broker, &["--from", &position]));
    assert!(beyond.contains("--from 7 is beyond shard "), "{beyond}");
    let number = shard.to_string();
    let shown = republished(&republish(
        &database,
        &broker,
        &["--from", "4", "--shard", &number],
    ));
    assert_eq!(shown["events"], 2);
    publish_all(&database, &broker, shard).await;
    assert_eq!(records(&broker).await, 2);

    let full = refusal(&republish(&database, &broker, &["--from", "0"]));
    let expected = format!("has records (partition {shard}: offsets 0 to 1), and a republish goes");
    assert!(full.contains(&expected), "{full}");
    assert_eq!(stored(&database, shard).await, EVENTS);
    assert_eq!(status(&database)["paused"], Value::Null);
}

#[tokio::test]
async fn republish_beyond_published_position_is_refused() {
    let present = TestBroker::embedded();
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    sqlx::query("UPDATE event_store.relay_cursors SET position = 4 WHERE shard = $1")
        .bind(shard.number())
        .execute(database.pool())
        .await
        .unwrap();
    let number = shard.to_string();
    let republish = |from| republish(&database, &present, &["--from", from, "--shard", &number]);
    let refused = refusal(&republish("5"));
    let expected = format!("--from 5 is beyond what shard {shard} has published, which ends at 4");
    assert!(refused.contains(&expected), "{refused}");
    assert_eq!(stored(&database, shard).await, 4);
    assert_eq!(republished(&republish("4"))["events"], 2);

    // After a restore, no event of the present log is published.
    sqlx::query("UPDATE event_store.log_meta SET epoch = epoch + 1")
        .execute(database.pool())
        .await
        .unwrap();
    let refused = refusal(&republish("3"));
    assert!(refused.contains("which ends at 0"), "{refused}");
    assert_eq!(republished(&republish("0"))["events"], EVENTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn republish_names_producer_that_does_not_end() {
    let broker = TestBroker::embedded();
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    // The relay stops with an open producer, as a process does after SIGSTOP.
    let recorder = Recorder::default();
    let mut zombie = relay(&database, recorder.clone(), "zombie");
    step_until_stored(&mut zombie, &database, (shard, EVENTS)).await;
    let waited = refusal(&republish(&database, &broker, &["--from", "0"]));
    assert!(
        waited.starts_with("error: zombie does not say that its producer has ended"),
        "{waited}"
    );
    assert_eq!(stored(&database, shard).await, EVENTS);
    assert_eq!(status(&database)["paused"], Value::Null);

    republished(&republish(
        &database,
        &broker,
        &["--from", "0", "--ended", "zombie"],
    ));
    // The relay drops the events that were read before, and begins with the first event.
    step_until(&mut zombie, "it has published again", async || {
        recorder.taken().len() >= 12
    })
    .await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
}

/// Interrupts a republish that waits for a producer, and returns who has paused the relay then.
async fn interrupted_republish(meanwhile: impl FnOnce(&TestDatabase)) -> Value {
    let broker = TestBroker::embedded();
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    let mut zombie = relay(&database, Recorder::default(), "zombie");
    step_until_stored(&mut zombie, &database, (shard, EVENTS)).await;
    let request = Republish {
        from: 0,
        shard: None,
        ended: Vec::new(),
    };
    let interrupted = async {
        let republishing =
            "SELECT bool_and(paused_by = 'relay republish') FROM event_store.relay_cursors";
        testing::eventually("the republish pauses the relay", async || {
            let is_paused = sqlx::query_scalar::<_, Option<bool>>(republishing);
            let is_paused = is_paused.fetch_one(database.pool()).await.unwrap();
            (is_paused == Some(true)).then_some(())
        })
        .await;
        meanwhile(&database);
    };
    let ended = republish::republish(
        database.pool(),
        &broker.config(),
        &request,
        "ada",
        interrupted,
    )
    .await;
    let ended = ended.unwrap_err().to_string();
    assert!(ended.starts_with("ended by a signal"), "{ended}");
    assert_eq!(stored(&database, shard).await, EVENTS);
    status(&database)["paused"]["by"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_republish_ends_its_pause() {
    assert_eq!(interrupted_republish(|_| {}).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_pause_outlasts_republish() {
    let pause = |database: &TestDatabase| {
        let paused = cli::json(database.url(), &PAUSE);
        assert_eq!(paused, json!({ "paused": true, "changed": true }));
    };
    assert_eq!(interrupted_republish(pause).await, cli::OPERATOR);
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_asleep_during_republish_makes_no_producer() {
    let broker = TestBroker::embedded();
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    let leases = LeaseTable::new(database.pool().clone(), "sleeper".to_owned());
    let (lease, _) = leases.acquire(true).await.unwrap().unwrap();
    let mut registration = ProducerRegistration::new(database.pool().clone(), "sleeper".to_owned());

    // A republish of one shard ends the lease of all shards.
    let number = shard.to_string();
    republished(&republish(
        &database,
        &broker,
        &["--from", "0", "--shard", &number],
    ));
    let error = registration.register(lease).await.unwrap_err().to_string();
    assert_eq!(error, "the lease was lost before a producer was made");
    assert_eq!(status(&database)["producers"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn republish_waits_for_unanswered_requests() {
    let broker = TestBroker::embedded();
    let database = TestDatabase::create().await;
    with_links(&database, 3).await;
    let leases = LeaseTable::new(database.pool().clone(), "one".to_owned());
    let (lease, _) = leases.acquire(true).await.unwrap().unwrap();
    let mut registration = ProducerRegistration::new(database.pool().clone(), "one".to_owned());
    registration.register(lease).await.unwrap();
    registration.end(false).await.unwrap();
    let waited = refusal(&republish(&database, &broker, &["--from", "0"]));
    assert!(
        waited.starts_with("error: a producer of one has ended, perhaps while requests were"),
        "{waited}"
    );
    // A restart does not shorten the settling time.
    cli::json(database.url(), &RESUME);
    let mut restarted = relay(&database, Recorder::default(), "one");
    restarted.step().await.unwrap();
    cli::json(database.url(), &PAUSE);
    step_until(&mut restarted, "it has ended its producer", async || {
        sqlx::query_scalar(
            "SELECT bool_and(settles_at IS NOT NULL)
                    AND max(settles_at) > now() + interval '1 minute'
             FROM event_store.relay_producers",
        )
        .fetch_one(database.pool())
        .await
        .unwrap()
    })
    .await;
}
