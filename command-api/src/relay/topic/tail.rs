//! The records behind a cursor, read as a consumer reads them: what was published that the cursor
//! does not tell of.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::log::{EventPlace, PerShard},
    kafka_config::{KafkaConfig, TopicName},
    shard::Shard,
};
use rdkafka::{
    ClientConfig, ClientContext, Message as _, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, Headers as _},
};
use tokio::task::spawn_blocking;

use super::Watermarks;
use crate::relay::refusal::Refusal;

/// Most records of a partition that are read, its last ones.
///
/// What a log has lost was published after all that it still has, so it is among the last records,
/// behind it only what came again: at most what a process publishes between two times that it
/// stores its cursor, a few thousand, for each process that was killed or woke up just then.
const RECORDS_MAX: i64 = 10_000;
/// How long reading may take in all.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one look for a record waits.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);
/// Required by librdkafka; nothing is committed, and the group is never joined.
const GROUP_ID: &str = "linkledger-relay";

/// Records of a partition, by offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    shard: Shard,
    from: i64,
    to: i64,
}

/// A record that is on the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The event, and where in the log it was.
    pub place: EventPlace,
    /// In this epoch.
    pub log_epoch: i32,
}

impl Span {
    /// What comes after the record at `offset`, or all that there is.
    pub fn after(shard: Shard, offset: Option<i64>, partition: Watermarks) -> Option<Self> {
        let Watermarks { low, high } = partition;
        let next = offset.map_or(low, |offset| offset + 1);
        let from = next.max(low).max(high - RECORDS_MAX);
        (from < high).then_some(Self {
            shard,
            from,
            to: high,
        })
    }
}

/// Reads these records; what is not of our making is left out.
///
/// # Errors
/// [`Refusal::Unreadable`], or when the cluster does not answer in time.
pub async fn read(kafka: &KafkaConfig, spans: &[Span]) -> anyhow::Result<Vec<Record>> {
    let mut config: ClientConfig = kafka.client_settings()?.collect();
    config
        .set("client.id", "linkledger-relay")
        .set("group.id", GROUP_ID)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        // Retention may have removed the first of them meanwhile.
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false")
        .set("queued.max.messages.kbytes", "16384");
    let (topic, brokers, spans) = (kafka.topic.clone(), &kafka.brokers, spans.to_vec());
    // The end of a consumer blocks too.
    let read = spawn_blocking(move || read_spans(&config, &topic, &spans)).await;
    let read = read.context("reading the topic has panicked")?;
    read.with_context(|| format!("can't read what was published to Kafka at {brokers}"))
}

fn read_spans(
    config: &ClientConfig,
    topic: &TopicName,
    spans: &[Span],
) -> anyhow::Result<Vec<Record>> {
    let consumer: BaseConsumer<Quiet> = config.create_with_context(Quiet)?;
    let mut partitions = TopicPartitionList::new();
    let mut ends = PerShard::<Option<i64>>::default();
    for span in spans {
        let partition = span.shard.number().into();
        partitions.add_partition_offset(topic.as_str(), partition, Offset::Offset(span.from))?;
        ends[span.shard.index()] = Some(span.to);
    }
    consumer.assign(&partitions)?;
    let mut records = Vec::new();
    let begun = Instant::now();
    while ends.iter().any(Option::is_some) {
        if begun.elapsed() >= READ_TIMEOUT {
            bail!("no answer within {} s", READ_TIMEOUT.as_secs());
        }
        let (partition, next) = match consumer.poll(POLL_TIMEOUT) {
            None => continue,
            Some(Ok(message)) => {
                records.extend(record(&message));
                (message.partition(), message.offset() + 1)
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => (partition, i64::MAX),
            Some(Err(error)) => match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                    let topic = topic.as_str().to_owned();
                    return Err(Refusal::Unreadable { topic }.into());
                }
                // The group is not used; brokers that come and go are waited for.
                Some(_) | None => continue,
            },
        };
        if let Some(shard) = Shard::new(partition.into())
            && ends[shard.index()].is_some_and(|end| end <= next)
        {
            ends[shard.index()] = None;
        }
    }
    Ok(records)
}

fn record(message: &BorrowedMessage<'_>) -> Option<Record> {
    let shard = Shard::new(message.partition().into())?;
    let headers = message.headers()?.iter().filter_map(|header| {
        let value = std::str::from_utf8(header.value?).ok()?;
        Some((header.key, value))
    });
    let read = PublishedEvent::from_record(shard, &headers.collect(), String::new()).ok()?;
    Some(Record {
        place: EventPlace::of(&read.event),
        log_epoch: read.log_epoch,
    })
}

/// What the client says to itself is not told: what matters of it comes as an error.
struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
    }
}

impl ConsumerContext for Quiet {}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: Option<i64>, low: i64, high: i64) -> Option<(i64, i64)> {
        let shard = Shard::new(3).unwrap();
        let span = Span::after(shard, offset, Watermarks { low, high })?;
        Some((span.from, span.to))
    }

    #[test]
    fn what_is_behind_a_cursor_is_read_and_no_more_than_the_last_of_it() {
        for (offset, low, high, expected) in [
            (Some(6), 0, 7, None),
            (Some(6), 7, 7, None),
            (Some(6), 0, 9, Some((7, 9))),
            // Retention has removed some.
            (Some(6), 8, 9, Some((8, 9))),
            // Where the last record is, is not known.
            (None, 0, 0, None),
            (None, 2, 9, Some((2, 9))),
            (Some(6), 0, 50_000, Some((40_000, 50_000))),
            (None, 0, 50_000, Some((40_000, 50_000))),
        ] {
            assert_eq!(span(offset, low, high), expected, "{offset:?} {low} {high}");
        }
    }
}
