//! A broker that is away, changes its leader, refuses: no hole, no failed create.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_command_api::relay::{Relay, publisher::KafkaPublisher};
use linkledger_core::{
    cloud_event::TOPIC,
    credits::{CreditsEvent, CreditsGranted},
    event::Event,
    event_store::{self, SessionKind, log::PerShard},
    id::AccountId,
    kafka_config::KafkaConfig,
    shard::{SHARD_COUNT, Shard},
};
use linkledger_testing as testing;
use linkledger_testing::{
    TestBroker, TestDatabase, eventually, eventually_within, stream::Stream, wire::Wire,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use rdkafka::{
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{RDKafkaApiKey, RDKafkaRespErr, RDKafkaRespErr::*},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    broker::Broker,
    load::{self, Load, report},
};
use crate::support::start_service;

const DRAIN_TIME_MAX: Duration = Duration::from_mins(5);

/// A relay of its own, as a process has it.
struct RunningRelay {
    shutdown: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

impl RunningRelay {
    fn start(pool: &PgPool, kafka: &KafkaConfig) -> Self {
        let publisher = KafkaPublisher::new(kafka, "lz4").unwrap();
        let appended = Arc::new(Notify::new());
        let relay = Relay::new(pool.clone(), publisher, "one".to_owned(), appended);
        let shutdown = CancellationToken::new();
        let running = testing::in_background(relay.run(shutdown.clone()));
        Self { shutdown, running }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

/// Three brokers, which do not mind the sequence of a producer's batches.
fn three_brokers() -> (MockCluster<'static, DefaultProducerContext>, KafkaConfig) {
    let cluster = MockCluster::new(3).unwrap();
    cluster
        .create_topic(TOPIC, i32::from(SHARD_COUNT), 3)
        .unwrap();
    let kafka = KafkaConfig::plaintext(cluster.bootstrap_servers());
    (cluster, kafka)
}

/// How long the broker is away, in seconds; a number in this variable sets another.
const OUTAGE_SECONDS: u64 = 5;
const OUTAGE_SECONDS_VARIABLE: &str = "LINKLEDGER_TEST_OUTAGE_SECONDS";

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_while_the_broker_was_away_follows_in_order_and_no_create_fails() {
    let seconds = std::env::var(OUTAGE_SECONDS_VARIABLE);
    let seconds = seconds.map_or(OUTAGE_SECONDS, |it| it.parse().unwrap());
    let (database, mut broker) = (TestDatabase::create().await, Broker::start().await);
    let pool = database.pool();
    let (router, _tasks) = start_service(&database, broker.config()).await;
    let load = Load::create(&database, router).await;
    load::published_more(pool, 100).await;

    broker.stop().await;
    let back_at = Instant::now() + Duration::from_secs(seconds);
    let within = Duration::from_secs(seconds) * 2 + DRAIN_TIME_MAX;
    eventually_within(within, "the outage is over", async || {
        (Instant::now() >= back_at).then_some(())
    })
    .await;
    let what = "creates go on, the topic does not";
    let (published, head) = eventually_within(within, what, async || {
        let (published, head) = load::published_of(pool).await;
        (head >= published + 100).then_some((published, head))
    })
    .await;
    broker.start_again().await;

    // The load goes on meanwhile.
    let begun = Instant::now();
    eventually_within(within, "all that waited is published", async || {
        (load::published_of(pool).await.0 >= head).then_some(())
    })
    .await;
    let drained = begun.elapsed();
    let created = load.stop().await;
    load::drained(pool, DRAIN_TIME_MAX).await;
    let repeated = Stream::assert_is_the_log(&broker.config(), pool).await;
    // Without a crash nothing is repeated either: Kafka drops what the producer sends again, while
    // the embedded broker does not look at the sequence of its batches.
    if matches!(broker, Broker::Apache(_)) {
        assert_eq!(repeated, 0);
    }
    report(&format!(
        "broker away for {seconds} s: {created} creates, none failed; {} events waited, \
         published {:.1} s after it was back",
        head - published,
        drained.as_secs_f64()
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_falls_silent_is_asked_again_and_nothing_is_missing() {
    let database = TestDatabase::create().await;
    let broker = TestBroker::embedded();
    let (wire, url) = Wire::to(&database).await;
    let pool = event_store::pool(&url, SessionKind::Reader, 2).unwrap();
    let relay = RunningRelay::start(&pool, &broker.config());
    let account_id = super::with_links(&database, 1).await;
    load::drained(database.pool(), DRAIN_TIME_MAX).await;

    // It waits for the broker, and has nothing to ask but for its leases.
    broker.cluster().broker_down(1).unwrap();
    let links = [("later", "https://example.com")];
    testing::append_links(database.pool(), account_id, &links).await;
    let lease = async || -> OffsetDateTime {
        let query = "SELECT max(lease_expires_at) FROM event_store.relay_cursors";
        let lease = sqlx::query_scalar(query).fetch_one(database.pool());
        lease.await.unwrap()
    };
    let before = lease().await;
    eventually("it has renewed its leases twice", async || {
        (lease().await > before + Duration::from_millis(1_500)).then_some(())
    })
    .await;
    wire.fall_silent();
    wire.until_unheard().await;
    wire.mend();
    broker.cluster().broker_up(1).unwrap();
    load::drained(database.pool(), DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    relay.stop().await;
}

/// Every leader changes while an event of each shard is on its way. These brokers do not mind the
/// sequence of batches, so each event is alone; `apache.rs` has a broker that does, under load.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_change_their_leader_have_no_hole() {
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
        load::drained(database.pool(), DRAIN_TIME_MAX).await;
    }
    Stream::assert_is_the_log(&kafka, database.pool()).await;
    relay.stop().await;
}

async fn an_account_of_each_shard(database: &TestDatabase) -> PerShard<AccountId> {
    let mut accounts = PerShard::default();
    for shard in Shard::all() {
        accounts[shard.index()] = Some(testing::account_of(database.pool(), shard, 0).await);
    }
    accounts.map(Option::unwrap)
}

/// The credit that follows `balance_after - 1` others.
fn granted(account_id: AccountId, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Granted(CreditsGranted {
        account_id,
        amount: 1,
        balance_after,
        reason: "test".to_owned(),
    }))
}

/// Errors that a broker gives for a while. These brokers do not mind the sequence, so each event
/// is on its way alone; how Apache Kafka refuses under load is told in `apache.rs`.
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
            load::drained(database.pool(), DRAIN_TIME_MAX).await;
        }
    }
    Stream::assert_is_the_log(&kafka, database.pool()).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_for_a_while_is_waited_for() {
    survives(RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_are_waited_for() {
    survives(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_for_its_size_is_tried_until_it_is_taken() {
    survives(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE).await;
}

#[tokio::test]
async fn an_event_that_is_too_large_is_named_and_nothing_is_skipped() {
    let database = TestDatabase::create().await;
    super::with_links(&database, 2).await;
    let broker = TestBroker::embedded();
    let publisher = KafkaPublisher::new(&broker.config(), "lz4").unwrap();
    let mut relay = super::relay(&database, publisher, "one");
    let too_large = [RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE];
    broker
        .cluster()
        .request_errors(RDKafkaApiKey::Produce, &too_large);
    let error = format!("{:#}", relay.step().await.unwrap_err());
    let event = "SELECT 'position 1 of shard ' || shard FROM event_store.events WHERE position = 1";
    let event: String = sqlx::query_scalar(event)
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert!(error.contains(&event), "{error}");
    assert!(error.contains("max.message.bytes"), "{error}");
    assert_eq!(relay.step().await.unwrap(), 4);
    Stream::assert_is_the_log(&broker.config(), database.pool()).await;
}

#[tokio::test]
async fn backlog_and_age_are_told_while_the_broker_is_away() {
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
    let account_id = super::with_links(&database, 1).await;
    let broker = TestBroker::embedded();
    let relay = RunningRelay::start(database.pool(), &broker.config());
    load::drained(database.pool(), DRAIN_TIME_MAX).await;
    broker.cluster().broker_down(1).unwrap();
    for (slug, events) in [("during", 2.0), ("later", 4.0)] {
        let links = [(slug, "https://example.com")];
        testing::append_links(database.pool(), account_id, &links).await;
        until("it grows", &|| sum("backlog_events") >= events).await;
    }
    let age = sum("oldest_unpublished_age_seconds");
    assert!(age > 0.0);
    until("it gets older", &|| {
        sum("oldest_unpublished_age_seconds") > age + 1.0
    })
    .await;
    until("it is held up", &|| sum("held_up_seconds") > 0.0).await;
    broker.cluster().broker_up(1).unwrap();
    load::drained(database.pool(), DRAIN_TIME_MAX).await;
    let shown = [
        "backlog_events",
        "oldest_unpublished_age_seconds",
        "held_up_seconds",
    ];
    until("it is over", &|| shown.iter().all(|name| sum(name) <= 0.0)).await;
    relay.stop().await;
}
