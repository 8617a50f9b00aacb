//! The last event of each shard in the topic: the position from which the relay continues.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use linkledger_core::{
    cloud_event::SEQUENCE,
    shard::{Position, Shard},
};
use linkledger_event_store::log::{self, PerShard};
use linkledger_service::{kafka_close::ClosedInTime, kafka_config::KafkaConfig};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    message::{BorrowedMessage, Headers as _},
};
use sqlx::PgPool;

/// Timeout of each request to the broker.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const ID: &str = "ce_id";

/// The last event of a partition.
pub(super) struct LastEvent {
    shard: Shard,
    position: Position,
    event_id: String,
    /// Number of records in the partition.
    records: i64,
}

/// Reads the last event of each partition that is not empty.
///
/// # Errors
/// Returns an error if the broker does not answer, or if the last record is not an event.
pub(super) async fn last_events(kafka: &KafkaConfig) -> anyhow::Result<Vec<LastEvent>> {
    let config: ClientConfig = kafka.client_settings()?.collect();
    let topic = kafka.topic.to_string();
    let read = tokio::task::spawn_blocking(move || read_last_events(config, &topic));
    let last_events = read.await.context("reading the topic has panicked")?;
    last_events.context("can't read the end of the topic")
}

/// Returns the position of each shard up to which the topic has the events.
///
/// # Errors
/// Returns an error if the topic has events of another database, or lacks events of this database.
pub(super) async fn published(
    last_events: Vec<LastEvent>,
    kafka: &KafkaConfig,
    pool: &PgPool,
) -> anyhow::Result<Vec<(Shard, Position)>> {
    let mut published: Vec<_> = Shard::all().map(|shard| (shard, 0)).collect();
    for last in last_events {
        let stored = log::read_at(pool, last.shard, &[last.position]).await;
        let stored = stored.context("can't read the log")?;
        ensure!(
            stored.first().map(|event| event.event_id.to_string()) == Some(last.event_id),
            "the topic {} has events of another database; choose another --data-dir or \
             --kafka-topic",
            kafka.topic
        );
        // The topic deletes no records, and the relay may publish a record twice: with all events
        // present there are at least as many records as events.
        ensure!(
            last.records >= last.position,
            "the topic {} lacks events: shard {} has {} records, but its last record is event {}; \
             remove the folder `kafka` in the data folder and start the stack again, which \
             publishes the whole log again",
            kafka.topic,
            last.shard,
            last.records,
            last.position
        );
        published[last.shard.index()].1 = last.position;
    }
    Ok(published)
}

fn read_last_events(mut config: ClientConfig, topic: &str) -> anyhow::Result<Vec<LastEvent>> {
    // librdkafka demands the name of a consumer group, although this consumer joins no group.
    let consumer: BaseConsumer = config.set("group.id", "linkledger-stack").create()?;
    let consumer = ClosedInTime::new(consumer);
    let mut ends = TopicPartitionList::new();
    let mut records = PerShard::<i64>::default();
    for shard in Shard::all() {
        let partition = i32::from(shard.number());
        let (low, high) = consumer.fetch_watermarks(topic, partition, ANSWER_TIMEOUT)?;
        if low < high {
            ends.add_partition_offset(topic, partition, Offset::Offset(high - 1))?;
        }
        records[shard.index()] = high - low;
    }
    consumer.assign(&ends)?;
    let mut last_events = Vec::new();
    while last_events.len() < ends.count() {
        let message = consumer.poll(ANSWER_TIMEOUT);
        let message = message.context("the broker returns no record before the timeout")??;
        last_events.push(last_event(&message, &records)?);
    }
    Ok(last_events)
}

fn last_event(message: &BorrowedMessage<'_>, records: &PerShard<i64>) -> anyhow::Result<LastEvent> {
    let header = |name| {
        let headers = message.headers()?;
        let header = headers.iter().find(|header| header.key == name)?;
        str::from_utf8(header.value?).ok()
    };
    let event = Shard::new(message.partition().into()).and_then(|shard| {
        Some(LastEvent {
            shard,
            position: header(SEQUENCE)?.parse().ok()?,
            event_id: header(ID)?.to_owned(),
            records: records[shard.index()],
        })
    });
    event.with_context(|| {
        format!(
            "the last record of partition {} is not an event of linkledger; choose another \
             --kafka-topic",
            message.partition()
        )
    })
}
