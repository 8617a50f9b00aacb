//! A fixture with a topic of clicks, recorders that write to it, and the aggregation.

use std::{collections::BTreeMap, time::Duration};

use linkledger_clicks::{
    CLICK_PARTITIONS, Click, ClickDetails, ClickKind, Device, RecordPlace, RecorderId,
};
use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    id::{AccountId, LinkId},
    shard::Shard,
};
use linkledger_event_store::{SessionKind, log_meta};
use linkledger_projector::{
    Config,
    clicks::{AggregationEnd, AggregationLoop},
    pipeline::claims::ClaimedShards,
};
use linkledger_service::kafka_headers;
use linkledger_testing::{TestBroker, in_background};
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use uuid::Uuid;

use crate::fixture::Fixture;

/// Database, broker with a topic of clicks, and a producer.
pub(crate) struct ClickFixture {
    pub(crate) fixture: Fixture,
    producer: FutureProducer,
}

/// A recorder: numbers its records in each partition.
pub(crate) struct TestRecorder {
    pub(crate) id: RecorderId,
    pub(crate) sequences: [u64; CLICK_PARTITIONS as usize],
}

/// An aggregation that runs in the background.
pub(crate) struct RunningAggregation {
    end: AggregationEnd,
    running: JoinHandle<anyhow::Result<()>>,
}

impl ClickFixture {
    pub(crate) async fn new() -> Self {
        Self::on(Fixture::new().await)
    }

    /// Makes the fixture with an embedded broker, for tests of what is stored and read.
    pub(crate) async fn embedded() -> Self {
        Self::on(Fixture::set_with(TestBroker::embedded()).await)
    }

    /// Makes the fixture with the log on a server of its own.
    pub(crate) async fn on_two_servers() -> Self {
        Self::on(Fixture::set_on_two_servers().await)
    }

    fn on(fixture: Fixture) -> Self {
        let producer = fixture.broker.client().create().unwrap();
        Self { fixture, producer }
    }

    /// Replaces broker and topic by others; the topic is empty.
    pub(crate) async fn with_other_broker(self) -> Self {
        let broker = TestBroker::start().await;
        let Fixture { database, read, .. } = self.fixture;
        Self::on(Fixture::on(database, read, broker))
    }

    pub(crate) fn pool(&self) -> &PgPool {
        self.fixture.read.pool()
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            clicks: self.fixture.broker.clicks(),
            ..self.fixture.config()
        }
    }

    /// Writes clicks, each to the partition of its link, with the recorder's sequences.
    pub(crate) async fn publish(&self, recorder: &mut TestRecorder, clicks: &[Click]) {
        for click in clicks {
            let partition = partition_of(click.link_id);
            let sequence = &mut recorder.sequences[usize::from(partition)];
            *sequence += 1;
            let sequence = *sequence;
            self.publish_as(recorder.id, sequence, click).await;
        }
    }

    /// Writes a click with any sequence.
    pub(crate) async fn publish_as(&self, recorder: RecorderId, sequence: u64, click: &Click) {
        let partition = partition_of(click.link_id);
        let place = RecordPlace {
            recorder_id: recorder,
            partition,
            sequence,
        };
        let value = click.to_value();
        let headers = self.headers(place, &value).await;
        self.publish_record(partition, &headers, &value).await;
    }

    /// Returns the headers of the record with this value at a place.
    pub(crate) async fn headers(
        &self,
        place: RecordPlace,
        value: &[u8],
    ) -> Vec<(&'static str, String)> {
        let key = log_meta::click_record_key(self.fixture.database.pool()).await;
        let headers = place.headers(value, &key.unwrap()).into_iter();
        headers
            .map(|(name, value)| (name, value.into_owned()))
            .collect()
    }

    /// Writes any record.
    pub(crate) async fn publish_record(
        &self,
        partition: u8,
        headers: &[(&str, String)],
        value: &[u8],
    ) {
        let topic = self.fixture.broker.clicks().clicks_topic;
        let headers = kafka_headers(headers.iter().map(|(key, value)| (*key, value)));
        let record = FutureRecord::<str, [u8]>::to(topic.as_str())
            .partition(partition.into())
            .headers(headers)
            .payload(value);
        self.producer
            .send(record, Duration::from_mins(2))
            .await
            .unwrap();
    }

    /// Counts to the end of the topic.
    pub(crate) async fn count(&self) {
        self.aggregation().count_to_end().await;
    }

    /// Starts an aggregation.
    pub(crate) fn aggregation(&self) -> RunningAggregation {
        self.aggregation_in(all_shards())
    }

    /// Starts an aggregation in these shards.
    pub(crate) fn aggregation_in(&self, claimed: ClaimedShards) -> RunningAggregation {
        let databases = self.fixture.databases(SessionKind::Projector, 2);
        let aggregation = AggregationLoop::new(&self.config(), databases, claimed).unwrap();
        let end = AggregationEnd::default();
        RunningAggregation {
            running: in_background(aggregation.run(end.clone())),
            end,
        }
    }
}

impl RunningAggregation {
    /// Stops the aggregation like a shutdown.
    pub(crate) async fn stop(self) {
        self.end.now.cancel();
        self.running.await.unwrap().unwrap();
    }

    /// Kills the aggregation at whatever it does.
    pub(crate) async fn abort(self) {
        self.running.abort();
        assert!(self.running.await.is_err());
    }

    /// Waits until the aggregation has counted everything.
    pub(crate) async fn count_to_end(self) {
        self.end.at_end_of_topic.cancel();
        let counted = timeout(Duration::from_mins(5), self.running).await;
        let counted = counted.expect("the aggregation reaches the end of the topic");
        counted.unwrap().unwrap();
    }
}

impl TestRecorder {
    pub(crate) fn new() -> Self {
        Self {
            id: RecorderId(new_uuid(SystemClock.now())),
            sequences: [0; CLICK_PARTITIONS as usize],
        }
    }
}

/// Returns claims of all shards.
pub(crate) fn all_shards() -> ClaimedShards {
    watch::channel(Shard::all().collect()).1
}

/// Returns the partition of a link: all clicks of a link are in one.
pub(crate) fn partition_of(link_id: LinkId) -> u8 {
    u8::try_from(link_id.uuid().as_u128() % u128::from(CLICK_PARTITIONS)).unwrap()
}

/// Returns a click of a link, whose account has every third link.
pub(crate) fn click(link: u128, clicked_at: OffsetDateTime) -> Click {
    Click {
        link_id: LinkId::from_uuid(Uuid::from_u128(link)),
        account_id: AccountId::from_uuid(Uuid::from_u128(link % 3)),
        slug: format!("link{link}"),
        clicked_at,
        kind: ClickKind::Human,
        count: 1,
        details: ClickDetails {
            visitor: Some(7),
            country: Some("DE".to_owned()),
            referrer_host: Some("news.example".to_owned()),
            browser: Some("Firefox".to_owned()),
            os: None,
            device: Some(Device::Desktop),
        },
    }
}

/// Returns the counted clicks of humans and bots, by account.
pub(crate) async fn clicks_by_account(pool: &PgPool) -> BTreeMap<u128, (i64, i64)> {
    let rows: Vec<(Uuid, i64, i64)> = sqlx::query_as(
        "SELECT account_id, sum(clicks)::bigint, sum(bots)::bigint FROM clicks.account_days
         GROUP BY account_id",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let rows = rows.into_iter();
    rows.map(|(account, clicks, bots)| (account.as_u128(), (clicks, bots)))
        .collect()
}

/// Returns the sum of the counted clicks of humans.
pub(crate) async fn clicks(pool: &PgPool) -> i64 {
    clicks_by_account(pool)
        .await
        .values()
        .map(|(clicks, _)| clicks)
        .sum()
}

/// Returns the sum of missing sequences.
pub(crate) async fn missing(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT coalesce(sum(missing), 0)::bigint FROM clicks.sequences")
        .fetch_one(pool)
        .await
        .unwrap()
}
