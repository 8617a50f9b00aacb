//! The relay: cursors and records. Failures of brokers and processes are in `relay/`.

mod apache;
mod broker;
mod kill;
mod leases;
pub(crate) mod load;
mod outage;
mod process;
mod producers;
mod refused;
mod restored;
mod retries;
mod running;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use linkledger_command_api::relay::{
    Relay, cursor,
    publisher::{EventPublisher, KafkaPublisher, Published},
};
use linkledger_core::{
    cloud_event::{PublishedEvent, TOPIC},
    id::AccountId,
    kafka_config::KafkaConfig,
    shard::Shard,
};
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase};
use rdkafka::{
    Message as _, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    message::Headers as _,
    mocking::MockCluster,
};
use tokio::sync::Notify;

use crate::support::{TestApp, create, destination, fresh_key, send};

/// Publisher that acknowledges all events, or a number of events before a failure.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    taken: Arc<Mutex<Vec<i64>>>,
    takes: Arc<Mutex<Option<usize>>>,
}

#[async_trait]
impl EventPublisher for Recorder {
    fn for_retries(self: Arc<Self>) -> Arc<dyn EventPublisher> {
        self
    }

    async fn publish(&self, events: &[PublishedEvent]) -> Published {
        let mut published = Published::default();
        let takes = self.takes.lock().unwrap().take();
        for event in events.iter().take(takes.unwrap_or(usize::MAX)) {
            self.taken.lock().unwrap().push(event.event.position);
            published.acknowledged[event.event.shard.index()] = Some(event.event.position);
        }
        if takes.is_some() {
            published.failure = Some(anyhow::anyhow!("on purpose"));
        }
        published
    }
}

impl Recorder {
    pub(crate) fn taken(&self) -> Vec<i64> {
        self.taken.lock().unwrap().clone()
    }
}

pub(crate) fn relay<P: EventPublisher>(
    database: &TestDatabase,
    publisher: P,
    owner: &str,
) -> Relay<P> {
    let (pool, appended) = (database.pool().clone(), Arc::new(Notify::new()));
    Relay::new(pool, publisher, owner.to_owned(), appended)
}

pub(crate) async fn with_links(database: &TestDatabase, count: usize) -> AccountId {
    with_links_of(database, "slug", count).await
}

async fn with_links_of(database: &TestDatabase, name: &str, count: usize) -> AccountId {
    let account_id = testing::account(database.pool(), 1_000).await;
    let slugs: Vec<String> = (0..count).map(|n| format!("{name}-{n}")).collect();
    let links: Vec<_> = slugs
        .iter()
        .map(|slug| (slug.as_str(), "https://example.com"))
        .collect();
    testing::append_links(database.pool(), account_id, &links).await;
    account_id
}

pub(crate) async fn stored(database: &TestDatabase, shard: Shard) -> i64 {
    sqlx::query_scalar("SELECT position FROM event_store.relay_cursors WHERE shard = $1")
        .bind(shard.number())
        .fetch_one(database.pool())
        .await
        .unwrap()
}

/// Steps until the stored cursor has reached the position.
pub(crate) async fn step_until_stored<P: EventPublisher>(
    relay: &mut Relay<P>,
    database: &TestDatabase,
    (shard, position): (Shard, i64),
) {
    let until = Instant::now() + Duration::from_mins(2);
    while stored(database, shard).await < position {
        assert!(
            Instant::now() < until,
            "the cursor does not reach {position}"
        );
        relay.step().await.unwrap();
    }
}

#[tokio::test]
async fn partial_broker_failure_resends_only_unacknowledged() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    let recorder = Recorder::default();
    *recorder.takes.lock().unwrap() = Some(4);
    let mut relay = relay(&database, recorder.clone(), "one");
    let error = relay.step().await.unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "the broker did not acknowledge every record: on purpose"
    );
    step_until_stored(&mut relay, &database, (shard, 6)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn unreadable_metadata_stops_no_shard() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    let damage = "ALTER TABLE event_store.events DISABLE TRIGGER USER;
                  UPDATE event_store.events SET metadata = '{\"actor\": 5}' WHERE position = 2;
                  UPDATE event_store.events SET metadata = '[7]' WHERE position = 4;
                  ALTER TABLE event_store.events ENABLE TRIGGER USER";
    sqlx::raw_sql(damage)
        .execute(database.pool())
        .await
        .unwrap();
    let recorder = Recorder::default();
    let mut relay = relay(&database, recorder.clone(), "a");
    step_until_stored(&mut relay, &database, (shard, 6)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn crash_before_cursor_store_repeats_events() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 2).await);
    let recorder = Recorder::default();
    let mut crashing = relay(&database, recorder.clone(), "one");
    assert_eq!(crashing.step().await.unwrap(), 4);
    drop(crashing);
    // The state after a quick step: a slow step has stored the cursor already.
    cursor::rewind_to_new_broker(database.pool(), &[(shard, 0)])
        .await
        .unwrap();
    // A restarted process has the same name and takes its own lease over at once.
    let mut restarted = relay(&database, recorder.clone(), "one");
    step_until_stored(&mut restarted, &database, (shard, 4)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[tokio::test]
async fn cursor_beyond_the_log_is_refused() {
    let database = TestDatabase::create().await;
    sqlx::query("UPDATE event_store.relay_cursors SET position = 7 WHERE shard = 3")
        .execute(database.pool())
        .await
        .unwrap();
    let error = relay(&database, Recorder::default(), "one")
        .step()
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the log of shard 3 has lost events of epoch 1"),
        "{error}"
    );
}

#[tokio::test]
async fn rewind_publishes_later_events_again() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 2).await);
    let recorder = Recorder::default();
    step_until_stored(
        &mut relay(&database, recorder.clone(), "one"),
        &database,
        (shard, 4),
    )
    .await;
    cursor::rewind_to_new_broker(database.pool(), &[(shard, 2)])
        .await
        .unwrap();
    // A rewind never moves a cursor forward.
    cursor::rewind_to_new_broker(database.pool(), &[(shard, 9)])
        .await
        .unwrap();
    relay(&database, recorder.clone(), "one")
        .step()
        .await
        .unwrap();
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 3, 4]);
}

#[tokio::test]
async fn topic_with_wrong_partition_count_is_refused() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 4, 1).unwrap();
    let database = TestDatabase::create().await;
    with_links(&database, 1).await;
    let kafka = KafkaConfig::plaintext(cluster.bootstrap_servers());
    let publisher = KafkaPublisher::new(&kafka, "lz4").unwrap();
    let error = relay(&database, publisher, "one").step().await.unwrap_err();
    let expected = format!("the topic {TOPIC} has 4 partitions instead of 16");
    assert!(format!("{error:#}").contains(&expected), "{error:#}");
}

/// Consumes records from the beginning; returns partition, headers and value of each.
pub(crate) fn consume(
    broker: &TestBroker,
    count: usize,
) -> Vec<(i32, HashMap<String, String>, String)> {
    let consumer: BaseConsumer = broker
        .client()
        .set("group.id", "test")
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_range(broker.topic(), 0, 15);
    partitions
        .set_all_offsets(rdkafka::Offset::Beginning)
        .unwrap();
    consumer.assign(&partitions).unwrap();
    (0..count)
        .map(|_| {
            let record = consumer
                .poll(Duration::from_mins(2))
                .expect("a record")
                .unwrap();
            let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
            let headers = record.headers().unwrap().iter();
            let mut headers: HashMap<_, _> = headers
                .map(|header| (header.key.to_owned(), text(header.value)))
                .collect();
            headers.insert("key".to_owned(), text(record.key()));
            (record.partition(), headers, text(record.payload()))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn created_link_makes_two_records_in_partition() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut request = create(&key, fresh_key(), &destination());
    request
        .headers_mut()
        .insert("traceparent", traceparent.parse().unwrap());
    let created = send(&app.router, request).await.json();

    let records = consume(&app.broker, 2);
    let stored: Vec<(String,)> =
        sqlx::query_as("SELECT payload::text FROM event_store.events ORDER BY position")
            .fetch_all(app.database.pool())
            .await
            .unwrap();
    for (n, (partition, headers, payload)) in records.iter().enumerate() {
        assert_eq!(*partition, i32::from(Shard::of(account_id).number()));
        assert_eq!(headers["key"], account_id.to_string());
        assert_eq!(headers["ce_partitionkey"], account_id.to_string());
        assert_eq!(headers["ce_sequence"], format!("{:020}", n + 1));
        assert_eq!(headers["ce_logepoch"], "1");
        assert_eq!(headers["ce_traceparent"], traceparent);
        assert_eq!(headers["ce_time"], created["created_at"]);
        assert_eq!(*payload, stored[n].0);
    }
    let types: Vec<&str> = records
        .iter()
        .map(|(_, headers, _)| &*headers["ce_type"])
        .collect();
    assert_eq!(
        types,
        ["linkledger.LinkCreated.v1", "linkledger.CreditsCharged.v1"]
    );
    assert_eq!(records[0].1["ce_subject"], created["id"]);
    assert_eq!(records[1].1["ce_subject"], account_id.to_string());
}
