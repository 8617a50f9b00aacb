//! A producer that waits for ever, on a broker inside the process.

use linkledger_clicks::{Click, ClickDetails, ClickKind};
use linkledger_core::id::{AccountId, LinkId};
use linkledger_service::kafka_errors::STATISTICS_INTERVAL;
use linkledger_testing::{FixedClock, TestBroker, eventually};
use rdkafka::{ClientContext as _, statistics::Statistics};
use time::OffsetDateTime;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::*;

const RECORDER: RecorderId = RecorderId(Uuid::from_u128(7));
/// Time within which the broker answers nothing.
const SILENCE: Duration = Duration::from_mins(5);

fn click() -> Click {
    Click {
        link_id: LinkId::from_uuid(Uuid::from_u128(1)),
        account_id: AccountId::from_uuid(Uuid::nil()),
        slug: "spring".to_owned(),
        clicked_at: OffsetDateTime::UNIX_EPOCH,
        kind: ClickKind::Human,
        count: 1,
        details: ClickDetails::default(),
    }
}

/// Makes the producer wait for ever by `disturb`, until another one has delivered its click.
async fn assert_replaced_after(disturb: impl FnOnce(&FixedClock, &ClickPublisher)) {
    let broker = TestBroker::embedded();
    let mut kafka = broker.config();
    kafka.topic = TopicName::of_clicks();
    let clock = Arc::new(FixedClock::default());
    let of_machine = Arc::clone(&clock) as Arc<dyn Clock>;
    let mut publisher =
        ClickPublisher::new(&kafka, RECORDER, RecordKey::new(b"key"), of_machine).unwrap();
    // The test sends the statistics.
    let (interval, off) = (STATISTICS_INTERVAL.0, "0");
    assert!(publisher.config.get(interval).is_some());
    publisher.config.set(interval, off);
    let stage = Mutex::new((publisher, Outbox::new(1 << 20)));
    eventually("the publisher is connected", async || {
        let (publisher, outbox) = &mut *stage.lock().await;
        publisher.publish(outbox).await;
        matches!(publisher.state, State::Connected(_)).then_some(())
    })
    .await;

    let cluster = broker.cluster();
    cluster.broker_round_trip_time(1, SILENCE).unwrap();
    {
        let (publisher, outbox) = &mut *stage.lock().await;
        outbox.add(&click());
        publisher.publish(outbox).await;
    }
    {
        let (publisher, outbox) = &mut *stage.lock().await;
        disturb(&clock, publisher);
        publisher.publish(outbox).await;
        assert!(matches!(publisher.state, State::Waiting(_)));
    }
    cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();
    eventually("another producer delivers the click", async || {
        let (publisher, outbox) = &mut *stage.lock().await;
        publisher.publish(outbox).await;
        outbox.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_set_back_replaces_the_producer() {
    assert_replaced_after(|clock, _| clock.set_back(Duration::from_hours(1))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producer_without_brokers_is_replaced() {
    let forget = |_: &FixedClock, publisher: &ClickPublisher| {
        for _ in 0..2 {
            publisher.errors.stats(Statistics::default());
        }
    };
    assert_replaced_after(forget).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_connection_leaves_no_handle() {
    let nobody_listens = KafkaConfig::plaintext("127.0.0.1:1".to_owned());
    let clock = Arc::new(FixedClock::default());
    let publisher = ClickPublisher::new(&nobody_listens, RECORDER, RecordKey::new(b"key"), clock);
    let publisher = Mutex::new(publisher.unwrap());
    eventually("the connection fails", async || {
        let connected = publisher.lock().await.connect(Instant::now()).await;
        connected.is_err().then_some(())
    })
    .await;
    assert!(matches!(publisher.into_inner().state, State::Waiting(_)));
}
