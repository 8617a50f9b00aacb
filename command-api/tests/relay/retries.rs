//! Ends of a relay while a refused record is retried: the next relay leaves no gap.

use std::time::Duration;

use linkledger_core::shard::Shard;
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase, stream::Stream};
use rdkafka::{
    consumer::{BaseConsumer, Consumer as _},
    types::{RDKafkaApiKey, RDKafkaRespErr::*},
};
use tokio::task::spawn_blocking;

use crate::{
    fixture::{DRAIN_TIME_MAX, drained, stored, with_links, with_links_of},
    pause::status,
    running::RunningRelay,
};

/// Two events for each link; the retry sends them one by one.
const LINKS: usize = 20;
const EVENTS: usize = 2 * LINKS;
/// Time of an answer of the broker: the retry of all events takes 8 seconds.
const ROUND_TRIP: Duration = Duration::from_millis(200);
const BROKER: i32 = 1;

/// Retry that has published some of its events.
struct Retry {
    database: TestDatabase,
    broker: TestBroker,
    relay: RunningRelay,
}

impl Retry {
    async fn start() -> Self {
        let (database, broker) = (TestDatabase::create().await, TestBroker::embedded());
        let shard = Shard::of(with_links(&database, LINKS).await);
        broker
            .cluster()
            .broker_round_trip_time(BROKER, ROUND_TRIP)
            .unwrap();
        let errors = [RD_KAFKA_RESP_ERR_INVALID_RECORD];
        broker
            .cluster()
            .request_errors(RDKafkaApiKey::Produce, &errors);
        let relay = RunningRelay::start(database.pool(), &broker.config());
        testing::eventually("the retry has published events", async || {
            (records(&broker, shard).await >= 2).then_some(())
        })
        .await;
        assert_eq!(stored(&database, shard).await, 0, "the retry still runs");
        Self {
            database,
            broker,
            relay,
        }
    }
}

/// Returns the number of records in the partition of the shard.
async fn records(broker: &TestBroker, shard: Shard) -> i64 {
    let consumer: BaseConsumer = broker.client().create().unwrap();
    let (topic, partition) = (broker.topic().to_owned(), i32::from(shard.number()));
    let reading = spawn_blocking(move || {
        consumer
            .fetch_watermarks(&topic, partition, Duration::from_mins(1))
            .unwrap()
    });
    let (_, end) = reading.await.unwrap();
    end
}

/// Waits until the relay named `two` has published all events, also later ones. Events of the
/// interrupted retry may be on the topic twice; consumers skip the second record.
async fn assert_published_without_gap(database: &TestDatabase, broker: &TestBroker) {
    drained(database.pool(), DRAIN_TIME_MAX).await;
    with_links_of(database, "later", LINKS).await;
    drained(database.pool(), DRAIN_TIME_MAX).await;
    assert_eq!(status(database)["shards"][0]["owner"], "two");
    let repeated = Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    assert!((1..=EVENTS).contains(&repeated), "{repeated}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_lost_during_retry_leaves_no_gap() {
    let Retry {
        database,
        broker,
        relay,
    } = Retry::start().await;
    let pool = database.pool();
    // A relay acquires the lease of its own name.
    let lease = "UPDATE event_store.relay_cursors SET owner = 'two', lease_epoch = lease_epoch + 1,
                     lease_expires_at = now() + interval '1 hour'";
    sqlx::query(lease).execute(pool).await.unwrap();
    let next = RunningRelay::start_as("two", pool, &broker.config());
    assert_published_without_gap(&database, &broker).await;
    next.stop().await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_during_retry_leaves_no_gap() {
    let Retry {
        database,
        broker,
        relay,
    } = Retry::start().await;
    relay.stop().await;
    let next = RunningRelay::start_as("two", database.pool(), &broker.config());
    assert_published_without_gap(&database, &broker).await;
    next.stop().await;
}
