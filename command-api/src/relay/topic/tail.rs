//! Records after a cursor, which were published after the cursor was stored.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use linkledger_core::{
    cloud_event::{Headers, PublishedEvent, RecordKey},
    shard::Shard,
};
use linkledger_event_store::log::{EventPlace, PerShard};
use linkledger_service::{
    kafka_close::ClosedInTime,
    kafka_config::{KafkaConfig, TopicName},
    kafka_errors::KafkaErrors,
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, Headers as _},
};
use tokio::task::spawn_blocking;

use super::{RIGHTS, Watermarks};
use crate::relay::refusal::RelayRefusal;

/// Highest number of records that are read of a partition, counted from its end.
///
/// Events that a log has lost were published after all events that the log still has, so they are
/// among the last records. Only repetitions follow: for each process that was killed or woke up
/// then, at most the events that a process publishes between two stores of its cursor, a few
/// thousand.
const RECORDS_MAX: i64 = 10_000;
/// Timeout for reading all records.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for a record in one poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);
/// Group id, which librdkafka requires; nothing is committed, and the group is never joined.
const GROUP_ID: &str = "linkledger-relay";

/// Offsets of records of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    shard: Shard,
    from: i64,
    to: i64,
}

/// Records at the end of a topic.
#[derive(Debug, Default)]
pub struct Tail {
    /// Records that a relay of this log has published.
    pub records: Vec<Record>,
    /// Number of other records that say that they are events of a log.
    pub foreign: u64,
}

/// Record that a relay of this log has published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Id of the event, and its place in the log.
    pub place: EventPlace,
    /// Epoch of the log in which the event was published.
    pub log_epoch: i32,
}

impl Span {
    /// Returns the offsets after `offset`, or of the whole partition if no offset is known, but at most the
    /// last `RECORDS_MAX`; `None` if there are no records.
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

impl Tail {
    /// Adds a record, unless it is no event.
    fn add(&mut self, message: &BorrowedMessage<'_>, key: &RecordKey) -> Option<()> {
        let shard = Shard::new(message.partition().into())?;
        let headers = message.headers()?.iter().filter_map(|header| {
            let value = std::str::from_utf8(header.value?).ok()?;
            Some((header.key, value))
        });
        let headers = headers.collect::<Headers<'_>>();
        let payload = std::str::from_utf8(message.payload()?).ok()?;
        let read = PublishedEvent::from_record(shard, &headers, String::new()).ok()?;
        if key.verifies(shard, &headers, payload) {
            let place = EventPlace::of(&read.event);
            let log_epoch = read.log_epoch;
            self.records.push(Record { place, log_epoch });
        } else if headers.has_mac() {
            self.foreign += 1;
        }
        Some(())
    }
}

/// Reads the records at `spans`.
///
/// # Errors
/// Returns a refusal without the right to read, or an error if the cluster does not answer before the
/// timeout.
pub async fn read(kafka: &KafkaConfig, spans: &[Span], key: &RecordKey) -> anyhow::Result<Tail> {
    let mut config: ClientConfig = kafka.client_settings()?.collect();
    config
        .set("client.id", "linkledger-relay")
        .set("group.id", GROUP_ID)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        // Retention may have removed the first records meanwhile.
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false")
        // Somebody else's open transaction must not hide records.
        .set("isolation.level", "read_uncommitted")
        .set("queued.max.messages.kbytes", "16384");
    let (topic, brokers, spans) = (kafka.topic.clone(), &kafka.brokers, spans.to_vec());
    let key = key.clone();
    // The close of a consumer blocks too.
    let read = spawn_blocking(move || read_spans(&config, &topic, &spans, &key)).await;
    let read = read.context("reading the topic has panicked")?;
    read.with_context(|| format!("cannot read the published records from Kafka at {brokers}"))
}

fn read_spans(
    config: &ClientConfig,
    topic: &TopicName,
    spans: &[Span],
    key: &RecordKey,
) -> anyhow::Result<Tail> {
    // Nobody asks this context for an error: relevant errors are returned.
    let consumer: BaseConsumer<_> = config.create_with_context(KafkaErrors::new(RIGHTS))?;
    let consumer = ClosedInTime::new(consumer);
    let mut partitions = TopicPartitionList::new();
    let mut ends = PerShard::<Option<i64>>::default();
    for span in spans {
        let partition = span.shard.number().into();
        partitions.add_partition_offset(topic.as_str(), partition, Offset::Offset(span.from))?;
        ends[span.shard.index()] = Some(span.to);
    }
    consumer.assign(&partitions)?;
    let mut tail = Tail::default();
    let begun = Instant::now();
    while ends.iter().any(Option::is_some) {
        if begun.elapsed() >= READ_TIMEOUT {
            bail!("no answer within {} s", READ_TIMEOUT.as_secs());
        }
        let (partition, next) = match consumer.poll(POLL_TIMEOUT) {
            None => continue,
            Some(Ok(message)) => {
                tail.add(&message, key);
                (message.partition(), message.offset() + 1)
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => (partition, i64::MAX),
            Some(Err(error)) => match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                    let text = format!(
                        "the topic {topic} has records after the cursors, as after a crash or a restore, and the \
                         relay's user may not read them: grant it Read on the topic (docs/kafka.md, \"TLS, SASL \
                         and rights\")"
                    );
                    return Err(RelayRefusal::new("topic_unreadable", text).into());
                }
                // Errors of the unused group are ignored; a lost broker is waited for.
                Some(_) | None => continue,
            },
        };
        if let Some(shard) = Shard::new(partition.into())
            && ends[shard.index()].is_some_and(|end| end <= next)
        {
            ends[shard.index()] = None;
        }
    }
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: Option<i64>, low: i64, high: i64) -> Option<(i64, i64)> {
        let shard = Shard::new(3).unwrap();
        let span = Span::after(shard, offset, Watermarks { low, high })?;
        Some((span.from, span.to))
    }

    #[test]
    fn span_covers_last_records_after_cursor() {
        for (offset, low, high, expected) in [
            (Some(6), 0, 7, None),
            (Some(6), 7, 7, None),
            (Some(6), 0, 9, Some((7, 9))),
            // Retention has removed some records.
            (Some(6), 8, 9, Some((8, 9))),
            // No offset is known.
            (None, 0, 0, None),
            (None, 2, 9, Some((2, 9))),
            (Some(6), 0, 50_000, Some((40_000, 50_000))),
            (None, 0, 50_000, Some((40_000, 50_000))),
        ] {
            assert_eq!(span(offset, low, high), expected, "{offset:?} {low} {high}");
        }
    }
}
