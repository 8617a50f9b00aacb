//! A service that records clicks, an embedded broker, and the records of its topic.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use axum::http::Method;
use linkledger_clicks::{CLICK_PARTITIONS, CLICKS_TOPIC, Click, RecordPlace, click_partition};
use linkledger_core::{clock::Clock as _, cloud_event::RecordKey, commands::CreateResult};
use linkledger_event_store::log_meta;
use linkledger_query_api::ClickSettings;
use linkledger_service::kafka_config::ClicksConfig;
use linkledger_testing::{self as testing, TestBroker, TestDatabase};
use rdkafka::{
    Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    message::Headers as _,
};
use tokio::task::spawn_blocking;

use crate::{
    read_tables::insert_redirect,
    service::{TestCaller, TestService},
};

/// Address of the peer of a usual visit.
pub(crate) const PEER: &str = "198.51.100.7";
pub(crate) const FIREFOX: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";

/// A service with its own broker.
pub(crate) struct ClickFixture {
    pub(crate) service: TestService,
    pub(crate) broker: TestBroker,
    pub(crate) caller: TestCaller,
}

/// A record of the topic of clicks.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) key: String,
    pub(crate) place: RecordPlace,
    pub(crate) click: Click,
    /// Everything in the record, as text.
    pub(crate) text: String,
}

impl ClickFixture {
    pub(crate) async fn start() -> Self {
        Self::start_with(TestDatabase::create().await, |_| {}).await
    }

    pub(crate) async fn start_with(
        database: TestDatabase,
        change: impl FnOnce(&mut ClickSettings),
    ) -> Self {
        let broker = TestBroker::embedded();
        let mut settings = ClickSettings {
            stream: ClicksConfig::default(),
            kafka_brokers: Some(broker.bootstrap_servers()),
            ..ClickSettings::off()
        };
        change(&mut settings);
        let service = TestService::start_with(database, |config| {
            config.clicks = settings;
            config.redirect_cache_mib = 1;
        })
        .await;
        let caller = service.caller().await;
        Self {
            service,
            broker,
            caller,
        }
    }

    /// Creates a link that can be followed.
    pub(crate) async fn link(&self, slug: &str) -> CreateResult {
        let link = self.service.append_link(&self.caller, slug).await;
        insert_redirect(self.service.pool(), &link).await;
        link
    }

    /// Follows a link, and expects a redirect.
    pub(crate) async fn visit(&self, slug: &str, headers: &[(&str, &str)]) {
        self.visit_from(PEER, slug, headers).await;
    }

    pub(crate) async fn visit_from(&self, peer: &str, slug: &str, headers: &[(&str, &str)]) {
        let path = format!("/{slug}");
        let answer = self.service.visit(Method::GET, &path, peer, headers).await;
        assert_eq!(answer.status, 302, "{}", answer.body);
    }

    /// Creates the salt of the service's day.
    pub(crate) async fn insert_salt(database: &TestDatabase) {
        let day = testing::FixedClock::default().now().date();
        sqlx::query("INSERT INTO clicks.salts (day, salt) VALUES ($1, $2)")
            .bind(day)
            .bind([7_u8; 16].as_slice())
            .execute(database.pool())
            .await
            .unwrap();
    }

    /// Waits until the topic has records of `clicks` clicks, and returns them after the checks of
    /// [`assert_complete`].
    pub(crate) async fn received(&self, clicks: u64) -> Vec<Received> {
        testing::eventually("all clicks are in the topic", async || {
            let received = received(&self.broker, self.record_key().await).await;
            (count(&received) >= clicks).then_some(received)
        })
        .await
    }

    /// Stops the service, and returns all records of the topic.
    pub(crate) async fn stop(self) -> (TestDatabase, Vec<Received>) {
        let record_key = self.record_key().await;
        let database = self.service.shut_down().await.unwrap();
        (database, received(&self.broker, record_key).await)
    }

    async fn record_key(&self) -> RecordKey {
        log_meta::click_record_key(self.service.pool())
            .await
            .unwrap()
    }
}

/// Returns the number of clicks in the records.
pub(crate) fn count(received: &[Received]) -> u64 {
    let counts = received.iter().map(|it| u64::from(it.click.count));
    counts.sum()
}

/// Panics unless each partition has the sequences from 1 on, each once, in order, in its own partition.
#[track_caller]
pub(crate) fn assert_complete(received: &[Received]) {
    let mut last = BTreeMap::new();
    for it in received {
        assert_eq!(it.place.partition, click_partition(it.click.link_id));
        assert_eq!(it.key, it.click.link_id.to_string());
        let last = last.entry(it.place.partition).or_insert(0);
        assert_eq!(
            it.place.sequence,
            *last + 1,
            "in partition {}",
            it.place.partition
        );
        *last = it.place.sequence;
    }
    let recorders: HashSet<_> = received.iter().map(|it| it.place.recorder_id).collect();
    assert!(recorders.len() <= 1);
}

/// Removes repeats, as the aggregation does: records whose sequence is not above the last one.
pub(crate) fn without_repeats(received: Vec<Received>) -> Vec<Received> {
    let mut last = BTreeMap::new();
    let is_new = |it: &Received| {
        let last = last.entry(it.place.partition).or_insert(0);
        let is_new = it.place.sequence > *last;
        *last = it.place.sequence.max(*last);
        is_new
    };
    let mut is_new = is_new;
    received.into_iter().filter(|it| is_new(it)).collect()
}

/// Reads all records of the topic.
async fn received(broker: &TestBroker, record_key: RecordKey) -> Vec<Received> {
    let mut config = broker.client();
    config.set("group.id", "test");
    let consumer: BaseConsumer = config.create().unwrap();
    spawn_blocking(move || read_to_end(&consumer, &record_key))
        .await
        .unwrap()
}

fn read_to_end(consumer: &BaseConsumer, record_key: &RecordKey) -> Vec<Received> {
    let timeout = Duration::from_mins(1);
    let mut assignment = TopicPartitionList::new();
    let mut expected = 0;
    for partition in 0..i32::from(CLICK_PARTITIONS) {
        let watermarks = consumer.fetch_watermarks(CLICKS_TOPIC, partition, timeout);
        let (low, high) = watermarks.unwrap();
        expected += high - low;
        let added = assignment.add_partition_offset(CLICKS_TOPIC, partition, Offset::Offset(low));
        added.unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let mut received = Vec::new();
    while i64::try_from(received.len()).unwrap() < expected {
        let message = consumer.poll(timeout).expect("a record in time").unwrap();
        let headers = message.headers().unwrap();
        let headers: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|header| (header.key, header.value.unwrap()))
            .collect();
        let (key, value) = (message.key().unwrap(), message.payload().unwrap());
        let parts = headers.iter().map(|(_, value)| *value).chain([key, value]);
        let text: Vec<_> = parts.map(String::from_utf8_lossy).collect();
        let partition = u8::try_from(message.partition()).unwrap();
        received.push(Received {
            key: String::from_utf8(key.to_vec()).unwrap(),
            text: text.join("\n"),
            place: RecordPlace::read(partition, headers, value, record_key).unwrap(),
            click: Click::from_value(value).unwrap(),
        });
    }
    received
}
