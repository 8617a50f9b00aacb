//! Brokers that stop, change leaders, or refuse records: no gap, and no failed create.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use linkledger_command_api::relay::publisher::{EventPublisher, Published};
use linkledger_core::{
    clock::Clock,
    cloud_event::{PublishedEvent, TOPIC},
    shard::{SHARD_COUNT, Shard},
};
use linkledger_event_store::SessionKind;
use linkledger_service::kafka_config::KafkaConfig;
use linkledger_testing as testing;
use linkledger_testing::{
    FixedClock, TestBroker, TestDatabase, eventually, eventually_within, stream::Stream, wire::Wire,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use rdkafka::{
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{RDKafkaApiKey, RDKafkaRespErr, RDKafkaRespErr::*},
};
use time::OffsetDateTime;

use crate::{
    broker::Broker,
    fixture::{
        DRAIN_TIME_MAX, Recorder, all_stored, assert_published_once, drained, published_of, relay,
        step_until_stored, with_links,
    },
    load::{self, Load, report},
    running::{RunningRelay, an_account_of_each_shard, granted},
    support::start_service,
};

/// Publisher that answers nothing until it is closed.
#[derive(Clone, Default)]
struct Sleeper {
    is_asked: Arc<AtomicBool>,
    is_awake: Arc<AtomicBool>,
    has_lost_brokers: Arc<AtomicBool>,
    acknowledging: Recorder,
}

#[async_trait]
impl EventPublisher for Sleeper {
    fn for_retries(self: Arc<Self>) -> Arc<dyn EventPublisher> {
        self
    }

    async fn publish(&self, events: &[PublishedEvent]) -> Published {
        if !self.is_awake.load(Ordering::SeqCst) {
            self.is_asked.store(true, Ordering::SeqCst);
            pending::<()>().await;
        }
        self.acknowledging.publish(events).await
    }

    async fn close(&self) -> bool {
        let is_asked = self.is_asked.load(Ordering::SeqCst);
        self.is_awake.store(is_asked, Ordering::SeqCst);
        true
    }

    fn take_lost_brokers(&self) -> Option<&'static str> {
        let has_lost_brokers = self.has_lost_brokers.swap(false, Ordering::SeqCst);
        has_lost_brokers.then_some("the client knows no broker any more")
    }
}

/// Disturbs a producer that never answers, and steps the relay until another producer has published. Returns
/// the failure of the step that waited.
async fn replaced_producer(disturb: impl FnOnce(&FixedClock, &Sleeper)) -> String {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 1).await;
    let clock = Arc::new(FixedClock::default());
    let publisher = Sleeper::default();
    let relay = relay(&database, publisher.clone(), "one");
    let mut relay = relay.with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let failure = async {
        loop {
            if let Err(error) = relay.step().await {
                break error;
            }
        }
    };
    let (failure, ()) = tokio::join!(failure, async {
        eventually("the relay waits for the broker", async || {
            publisher.is_asked.load(Ordering::SeqCst).then_some(())
        })
        .await;
        disturb(&clock, &publisher);
    });
    let shard = Shard::of(account_id);
    step_until_stored(&mut relay, &database, (shard, 2)).await;
    assert_eq!(publisher.acknowledging.taken(), [1, 2]);
    format!("{failure:#}")
}

#[tokio::test]
async fn clock_set_back_replaces_the_producer() {
    let error = replaced_producer(|clock, _| clock.set_back(Duration::from_hours(1))).await;
    assert!(error.contains("was set back by 3600 s"), "{error}");
}

#[tokio::test]
async fn producer_without_brokers_is_replaced() {
    let lose = |_: &FixedClock, of: &Sleeper| of.has_lost_brokers.store(true, Ordering::SeqCst);
    let error = replaced_producer(lose).await;
    assert!(error.contains("knows no broker any more"), "{error}");
}

/// Starts three brokers that ignore the sequence numbers of batches.
fn three_brokers() -> (MockCluster<'static, DefaultProducerContext>, KafkaConfig) {
    let cluster = MockCluster::new(3).unwrap();
    cluster
        .create_topic(TOPIC, i32::from(SHARD_COUNT), 3)
        .unwrap();
    let kafka = KafkaConfig::plaintext(cluster.bootstrap_servers());
    (cluster, kafka)
}

/// Length of the outage in seconds, unless the variable is set.
const OUTAGE_SECONDS: u64 = 5;
const OUTAGE_SECONDS_VARIABLE: &str = "LINKLEDGER_TEST_OUTAGE_SECONDS";

#[tokio::test(flavor = "multi_thread")]
async fn broker_outage_keeps_creates_and_order() {
    let seconds = std::env::var(OUTAGE_SECONDS_VARIABLE);
    let seconds = seconds.map_or(OUTAGE_SECONDS, |it| it.parse().unwrap());
    let (database, mut broker) = (TestDatabase::create().await, Broker::start().await);
    let pool = database.pool();
    let (router, _tasks) = start_service(&database, broker.config()).await;
    let load = Load::create(&database, router).await;
    load::published_more(pool, 100).await;

    let stored = all_stored(pool).await;
    broker.stop().await;
    let back_at = Instant::now() + Duration::from_secs(seconds);
    let within = Duration::from_secs(seconds) * 2 + DRAIN_TIME_MAX;
    eventually_within(within, "the outage is over", async || {
        (Instant::now() >= back_at).then_some(())
    })
    .await;
    let what = "creates go on, the topic does not";
    let (published, head) = eventually_within(within, what, async || {
        let (published, head) = published_of(pool).await;
        (head >= published + 100).then_some((published, head))
    })
    .await;
    broker.start_again().await;

    // The load continues during the outage.
    let begun = Instant::now();
    eventually_within(within, "all that waited is published", async || {
        (published_of(pool).await.0 >= head).then_some(())
    })
    .await;
    let drain_time = begun.elapsed();
    let created = load.stop().await;
    drained(pool, DRAIN_TIME_MAX).await;
    let stream = Stream::read(&broker.config()).await;
    let repeated = stream.assert_equals_log(pool).await;
    assert_published_once(&stream, &stored);
    // Kafka drops the batches that a producer sends again. A producer that knew no broker any more was replaced, and the
    // next one repeats what was on its way.
    report(&format!(
        "broker away for {seconds} s: {created} creates, none failed; {} events waited, \
         published {:.1} s after it was back, {repeated} records repeated",
        head - published,
        drain_time.as_secs_f64()
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_database_is_retried_without_gap() {
    let database = TestDatabase::create().await;
    let broker = TestBroker::embedded();
    let (wire, url) = Wire::to(&database).await;
    let pool = linkledger_event_store::pool(&url, SessionKind::Reader, 2).unwrap();
    let relay = RunningRelay::start(&pool, &broker.config());
    let account_id = with_links(&database, 1).await;
    drained(database.pool(), DRAIN_TIME_MAX).await;

    // The relay waits for the broker, and only renews its lease.
    broker.cluster().broker_down(1).unwrap();
    let links = [("later", "https://example.com")];
    testing::append_links(database.pool(), account_id, &links).await;
    let lease = async || -> (OffsetDateTime, bool) {
        let query = "SELECT max(lease_expires_at), max(lease_expires_at) < now()
                     FROM event_store.relay_cursors";
        let lease = sqlx::query_as(query).fetch_one(database.pool());
        lease.await.unwrap()
    };
    let (before, _) = lease().await;
    // On a machine that stands still a lease expires, and the broker is needed for another one.
    eventually("it has renewed its leases twice or lost them", async || {
        let (lease, has_expired) = lease().await;
        (has_expired || lease > before + Duration::from_millis(1_500)).then_some(())
    })
    .await;
    wire.fall_silent();
    wire.until_unheard().await;
    wire.mend();
    broker.cluster().broker_up(1).unwrap();
    drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_ends_although_the_database_is_silent() {
    let database = TestDatabase::create().await;
    let broker = TestBroker::embedded();
    let (wire, url) = Wire::to(&database).await;
    let pool = linkledger_event_store::pool(&url, SessionKind::Reader, 2).unwrap();
    let relay = RunningRelay::start(&pool, &broker.config());
    with_links(&database, 1).await;
    drained(database.pool(), DRAIN_TIME_MAX).await;
    wire.fall_silent();
    wire.until_unheard().await;
    let begun = Instant::now();
    relay.stop().await;
    // The timeout of one statement alone is 15 s, and the process has 20 s for all.
    assert!(begun.elapsed() < Duration::from_secs(12));
}

/// Every leader changes while an event of each shard is in flight. These brokers ignore sequence
/// numbers, so each event is sent alone; `apache.rs` has a load on a broker that checks them.
#[tokio::test(flavor = "multi_thread")]
async fn leader_change_leaves_no_gap() {
    let database = TestDatabase::create().await;
    let (cluster, kafka) = three_brokers();
    let relay = RunningRelay::start(database.pool(), &kafka);
    let accounts = an_account_of_each_shard(&database).await;
    for round in 1..=12 {
        for account_id in accounts {
            testing::append_events(database.pool(), account_id, &[granted(account_id, round)])
                .await;
        }
        for partition in 0..i32::from(SHARD_COUNT) {
            let leader = (partition + i32::try_from(round).unwrap()) % 3 + 1;
            cluster
                .partition_leader(TOPIC, partition, Some(leader))
                .unwrap();
        }
        drained(database.pool(), DRAIN_TIME_MAX).await;
    }
    Stream::assert_is_the_log(&kafka, database.pool()).await;
    relay.stop().await;
}

/// Checks that a temporary error of the broker leaves no gap. These brokers ignore sequence numbers,
/// so each event is sent alone; `apache.rs` has refusals under load.
async fn survives(error: RDKafkaRespErr) {
    let database = TestDatabase::create().await;
    let (cluster, kafka) = three_brokers();
    let relay = RunningRelay::start(database.pool(), &kafka);
    let account_id = testing::account(database.pool(), 0).await;
    for count in [0, 1, 2, 4] {
        cluster.request_errors(RDKafkaApiKey::Produce, &vec![error; count]);
        for balance_after in 1..=3 {
            let granted = granted(account_id, balance_after);
            testing::append_events(database.pool(), account_id, &[granted]).await;
            drained(database.pool(), DRAIN_TIME_MAX).await;
        }
    }
    Stream::assert_is_the_log(&kafka, database.pool()).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_disk_error_leaves_no_gap() {
    survives(RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_replicas_leave_no_gap() {
    survives(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_size_is_retried_without_gap() {
    survives(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE).await;
}

#[tokio::test]
async fn outage_reports_age_of_oldest_event() {
    let metrics = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&metrics);
    let sum = |name: &str| -> f64 {
        let name = format!("linkledger_relay_{name}");
        let rendered = metrics.handle().render();
        let values = rendered.lines().filter_map(|line| {
            let (start, value) = line.split_once(' ')?;
            (start.split('{').next() == Some(&name)).then(|| value.parse::<f64>().unwrap())
        });
        values.sum()
    };
    let until = async |what: &str, is_so: &dyn Fn() -> bool| {
        eventually(what, async || is_so().then_some(())).await;
    };
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 1).await;
    let broker = TestBroker::embedded();
    let relay = RunningRelay::start(database.pool(), &broker.config());
    drained(database.pool(), DRAIN_TIME_MAX).await;
    broker.cluster().broker_down(1).unwrap();
    let links = [("during", "https://example.com")];
    testing::append_links(database.pool(), account_id, &links).await;
    until("it gets older", &|| {
        sum("oldest_unpublished_age_seconds") > 1.0
    })
    .await;
    until("it is stalled", &|| sum("stalled_seconds") > 0.0).await;
    broker.cluster().broker_up(1).unwrap();
    drained(database.pool(), DRAIN_TIME_MAX).await;
    let shown = ["oldest_unpublished_age_seconds", "stalled_seconds"];
    until("it is over", &|| shown.iter().all(|name| sum(name) <= 0.0)).await;
    relay.stop().await;
}
