//! A relay that a test steps, a publisher that records, and what has been published. The tests of the API use some
//! of it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use linkledger_command_api::relay::{
    Relay,
    publisher::{EventPublisher, Published},
};
use linkledger_core::{
    cloud_event::PublishedEvent, envelope::RecordedEvent, id::AccountId, shard::Shard,
};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase, eventually_within, stream::Stream};
use rdkafka::{
    Message as _, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    message::Headers as _,
};
use sqlx::PgPool;

/// Timeout for the relay to publish the whole log.
pub(crate) const DRAIN_TIME_MAX: Duration = Duration::from_mins(5);

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
    /// Lets the next publish acknowledge `count` events, and then fail.
    pub(crate) fn take_only(&self, count: usize) {
        *self.takes.lock().unwrap() = Some(count);
    }

    pub(crate) fn taken(&self) -> Vec<i64> {
        self.taken.lock().unwrap().clone()
    }
}

pub(crate) fn relay(
    database: &TestDatabase,
    publisher: impl EventPublisher + 'static,
    owner: &str,
) -> Relay {
    let pool = database.pool().clone();
    Relay::new(pool, publisher, owner.to_owned(), Arc::default())
}

pub(crate) async fn with_links(database: &TestDatabase, count: usize) -> AccountId {
    with_links_of(database, "slug", count).await
}

pub(crate) async fn with_links_of(database: &TestDatabase, name: &str, count: usize) -> AccountId {
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
pub(crate) async fn step_until_stored(
    relay: &mut Relay,
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

/// Returns the event of the log after a position.
pub(crate) async fn event_after(
    database: &TestDatabase,
    shard: Shard,
    after: i64,
) -> RecordedEvent {
    let from = ReadFrom { shard, after };
    let events = log::read_after(database.pool(), &[from], 1).await;
    events.unwrap().remove(0)
}

/// Returns the stored cursor of each shard.
pub(crate) async fn all_stored(pool: &PgPool) -> Vec<i64> {
    let stored = "SELECT position FROM event_store.relay_cursors ORDER BY shard";
    sqlx::query_scalar(stored).fetch_all(pool).await.unwrap()
}

/// Asserts that no event up to these cursors was published twice: a producer that takes over repeats only what was on
/// its way.
pub(crate) fn assert_published_once(stream: &Stream, stored: &[i64]) {
    for (records, stored) in stream.records.iter().zip(stored) {
        let records = records.iter();
        let records = records.filter(|record| record.event.position <= *stored);
        assert_eq!(records.count(), usize::try_from(*stored).unwrap());
    }
}

/// Returns the sums of the published positions and of the heads.
pub(crate) async fn published_of(pool: &PgPool) -> (i64, i64) {
    let published = "SELECT coalesce(sum(position), 0)::bigint FROM event_store.relay_cursors";
    let published: i64 = sqlx::query_scalar(published).fetch_one(pool).await.unwrap();
    (published, log::heads(pool).await.unwrap().iter().sum())
}

/// Waits until the whole log is published.
pub(crate) async fn drained(pool: &PgPool, within: Duration) {
    eventually_within(within, "all is published", async || {
        let (published, head) = published_of(pool).await;
        (published == head).then_some(())
    })
    .await;
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
