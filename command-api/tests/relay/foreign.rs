//! Records that no relay of the log has published: of somebody else who may write to the topic, or of another log.

use std::time::Duration;

use linkledger_core::{
    cloud_event::{PublishedEvent, RecordKey},
    shard::Shard,
};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_service::kafka_headers;
use linkledger_testing::{TestBroker, TestDatabase, stream::Stream};
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::{
    fixture::{relay, step_until_stored, with_links, with_links_of},
    republish::{EVENTS, published_to, publisher},
};

/// Writes a record to the topic.
async fn write(broker: &TestBroker, record: &PublishedEvent) {
    let producer: FutureProducer = broker.client().create().unwrap();
    let record = FutureRecord::<str, str>::to(broker.topic())
        .partition(record.event.shard.number().into())
        .headers(kafka_headers(record.headers()))
        .payload(&record.event.payload);
    producer.send(record, Duration::from_mins(2)).await.unwrap();
}

async fn last_event(database: &TestDatabase, shard: Shard) -> PublishedEvent {
    let from = ReadFrom { shard, after: 0 };
    let events = log::read_after(database.pool(), &[from], 1_000).await;
    PublishedEvent::new(events.unwrap().pop().unwrap(), 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_records_stop_nothing() {
    let broker = TestBroker::embedded();
    let (database, shard) = published_to(&broker).await;
    let mut forged = last_event(&database, shard).await;
    forged.event.position += 1;
    forged.event.event_id = linkledger_core::id::EventId::from_uuid(uuid::Uuid::nil());
    write(&broker, &forged).await;
    forged.log_epoch = i32::MAX;
    write(&broker, &forged.signed(&RecordKey::new(&[7; 32]))).await;

    with_links_of(&database, "later", 3).await;
    let mut running = relay(&database, publisher(&broker), "two");
    step_until_stored(&mut running, &database, (shard, EVENTS)).await;
    while running.step().await.unwrap() > 0 {}
    let lost = "SELECT count(lost_epoch) FROM event_store.relay_cursors";
    let lost: i64 = sqlx::query_scalar(lost)
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(lost, 0);
    let stream = Stream::read(&broker.config()).await;
    let records: usize = stream.records.iter().map(Vec::len).sum();
    assert_eq!(records, 2 * usize::try_from(EVENTS).unwrap() + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_of_another_log_is_refused() {
    let broker = TestBroker::embedded();
    published_to(&broker).await;
    let database = TestDatabase::create().await;
    let another = "UPDATE event_store.log_meta SET record_key = DEFAULT";
    sqlx::query(another).execute(database.pool()).await.unwrap();
    let shard = Shard::of(with_links(&database, 3).await);
    let mut refused = relay(&database, publisher(&broker), "one");
    let error = refused.step().await.unwrap_err().to_string();
    assert!(error.contains("none of them is of this log"), "{error}");
    // With a topic of its own, the log is published.
    let own = TestBroker::embedded();
    let mut running = relay(&database, publisher(&own), "one");
    step_until_stored(&mut running, &database, (shard, EVENTS)).await;
}
