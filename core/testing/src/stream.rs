//! Reads the topic from the beginning, with the rule for consumers: a record is applied only if the
//! sequence is above the highest applied sequence of the partition and epoch
//! (docs/events.md).

use std::{
    sync::mpsc::{self, TryRecvError},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    message::{BorrowedMessage, Headers as _},
};
use sqlx::PgPool;
use tokio::task::JoinHandle;

use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::{Metadata, RecordedEvent},
    shard::{Position, SHARD_COUNT, Shard},
};
use linkledger_event_store::log::{self, PerShard, ReadFrom};
use linkledger_service::{kafka_close::ClosedInTime, kafka_config::KafkaConfig};

/// Timeout for reading the rest of the topic.
const READ_TIME_MAX: Duration = Duration::from_mins(2);
/// Timeout for reading the end of a partition.
const WATERMARKS_TIME_MAX: Duration = Duration::from_secs(30);

/// All records of the topic.
pub struct Stream {
    /// Records of each partition, in the order of the offsets.
    pub records: PerShard<Vec<PublishedEvent>>,
}

impl Stream {
    /// Reads the topic from the beginning to the end.
    pub async fn read(kafka: &KafkaConfig) -> Self {
        Self::follow(kafka).to_the_end().await
    }

    /// Reads the topic from the beginning, concurrently with writes: for tests that write more than
    /// the embedded broker retains.
    pub fn follow(kafka: &KafkaConfig) -> Following {
        let kafka = kafka.clone();
        let (all_is_written, written) = mpsc::channel();
        let read = move || read_while(&consumer(&kafka), kafka.topic.as_str(), &written);
        Following {
            all_is_written,
            reading: tokio::task::spawn_blocking(read),
        }
    }

    /// Returns the events that a consumer applies, and the number of repeated records that a consumer
    /// drops.
    ///
    /// # Panics
    /// Panics at a record that jumps forward: the consumer would never get the missing records.
    pub fn applied(&self) -> (PerShard<Vec<RecordedEvent>>, usize) {
        let mut repeated = 0;
        let applied = self.records.each_ref().map(|records| {
            let applied = apply_in_order(records).unwrap_or_else(|hole| panic!("{hole:?}"));
            repeated += records.len() - applied.len();
            applied.iter().map(|record| record.event.clone()).collect()
        });
        (applied, repeated)
    }

    /// Asserts that a consumer applies exactly the events of the log, in order. Returns the number of
    /// repeated records.
    pub async fn assert_is_the_log(kafka: &KafkaConfig, pool: &PgPool) -> usize {
        Self::read(kafka).await.assert_equals_log(pool).await
    }

    /// Asserts that these records result in exactly the events of the log, in order. Returns the
    /// number of repeated records.
    pub async fn assert_equals_log(&self, pool: &PgPool) -> usize {
        let (applied, repeated) = self.applied();
        let log = read_log(pool).await;
        for shard in Shard::all() {
            let (applied, log) = (&applied[shard.index()], &log[shard.index()]);
            assert_eq!(applied.len(), log.len(), "events of shard {shard}");
            for (applied, event) in applied.iter().zip(log) {
                assert_eq!(applied, event, "shard {shard}");
            }
        }
        repeated
    }
}

/// Reader of a topic that is still being written. The reading ends when this value is dropped.
pub struct Following {
    all_is_written: mpsc::Sender<()>,
    reading: JoinHandle<PerShard<Vec<PublishedEvent>>>,
}

impl Following {
    /// Reads the rest of the topic, after all events are published, and returns all records.
    pub async fn to_the_end(self) -> Stream {
        let Self {
            all_is_written,
            reading,
        } = self;
        // A failure of the send means that the reader has panicked, which the next line reports.
        all_is_written.send(()).ok();
        let records = reading.await.expect("the topic is read");
        // Dropped last: the drop of the sender ends the reading.
        drop(all_is_written);
        Stream { records }
    }
}

/// Gap before a record: the consumer would wait in vain for the record's predecessor.
#[derive(Debug, PartialEq, Eq)]
struct Hole {
    shard: Shard,
    applied: Position,
    next: Position,
}

/// Returns the records of one partition that a consumer applies.
fn apply_in_order(records: &[PublishedEvent]) -> Result<Vec<&PublishedEvent>, Hole> {
    let (mut epoch, mut highest) = (0, 0);
    let mut applied = Vec::new();
    for record in records {
        let (shard, next) = (record.event.shard, record.event.position);
        if record.log_epoch > epoch {
            (epoch, highest) = (record.log_epoch, 0);
        }
        if record.log_epoch < epoch || next <= highest {
            continue;
        }
        if next > highest + 1 {
            return Err(Hole {
                shard,
                applied: highest,
                next,
            });
        }
        highest = next;
        applied.push(record);
    }
    Ok(applied)
}

fn consumer(kafka: &KafkaConfig) -> ClosedInTime<BaseConsumer> {
    let settings = kafka.client_settings().expect("settings of a test");
    let consumer: BaseConsumer = settings
        .collect::<ClientConfig>()
        .set("group.id", "linkledger-test")
        .set("enable.auto.commit", "false")
        // A record that the broker dropped before the read must show as a hole, not as the end.
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", "10")
        .create()
        .expect("a consumer is made");
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_range(kafka.topic.as_str(), 0, i32::from(SHARD_COUNT) - 1);
    partitions
        .set_all_offsets(Offset::Beginning)
        .expect("the list has partitions");
    consumer
        .assign(&partitions)
        .expect("the partitions are assigned");
    ClosedInTime::new(consumer)
}

/// Reads until all records are read that exist when `written` gets a message, or until `written` is
/// disconnected.
fn read_while(
    consumer: &BaseConsumer,
    topic: &str,
    written: &mpsc::Receiver<()>,
) -> PerShard<Vec<PublishedEvent>> {
    let mut records = PerShard::<Vec<PublishedEvent>>::default();
    let mut offsets = PerShard::<i64>::default();
    let mut until = None;
    loop {
        match written.try_recv() {
            Ok(()) => until = Some(Instant::now() + READ_TIME_MAX),
            Err(TryRecvError::Disconnected) => return records,
            Err(TryRecvError::Empty) => {}
        }
        let is_before_deadline = until.is_none_or(|until| Instant::now() < until);
        assert!(is_before_deadline, "the end of the topic was not reached");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) => {
                let event = event(&record);
                let index = event.event.shard.index();
                offsets[index] = record.offset() + 1;
                records[index].push(event);
            }
            None if until.is_some() && is_at_end(consumer, topic, &offsets) => return records,
            // A broker that has just restarted returns errors; the next poll retries.
            Some(Err(_)) | None => {}
        }
    }
}

/// Returns true if every partition is empty or read to the end.
fn is_at_end(consumer: &BaseConsumer, topic: &str, offsets: &PerShard<i64>) -> bool {
    Shard::all().all(|shard| {
        let partition = i32::from(shard.number());
        let watermarks = consumer.fetch_watermarks(topic, partition, WATERMARKS_TIME_MAX);
        watermarks.is_ok_and(|(low, high)| low == high || offsets[shard.index()] >= high)
    })
}

fn event(record: &BorrowedMessage<'_>) -> PublishedEvent {
    fn text(bytes: Option<&[u8]>) -> &str {
        std::str::from_utf8(bytes.unwrap_or_default()).expect("headers and payloads are text")
    }
    let headers = record.headers().expect("every record has headers");
    let headers = headers
        .iter()
        .map(|header| (header.key, text(header.value)));
    let shard = Shard::new(record.partition().into()).expect("a partition is a shard");
    let payload = text(record.payload()).to_owned();
    PublishedEvent::from_record(shard, &headers.collect(), payload)
        .expect("the record is an event of linkledger")
}

/// Reads the log, with only the metadata that is published.
async fn read_log(pool: &PgPool) -> PerShard<Vec<RecordedEvent>> {
    let from: Vec<ReadFrom> = Shard::all()
        .map(|shard| ReadFrom { shard, after: 0 })
        .collect();
    let events = log::read_after(pool, &from, i64::MAX).await;
    let mut log = PerShard::<Vec<RecordedEvent>>::default();
    for mut event in events.expect("the log is read") {
        event.metadata = Metadata {
            traceparent: event.metadata.traceparent,
            link: event.metadata.link,
            ..Metadata::default()
        };
        log[event.shard.index()].push(event);
    }
    log
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use uuid::Uuid;

    use super::*;
    use linkledger_core::id::{AccountId, EventId};

    fn sequences(sequences: &[(i32, Position)]) -> Result<Vec<(i32, Position)>, Hole> {
        let records: Vec<_> = sequences
            .iter()
            .map(|(log_epoch, position)| {
                let event = RecordedEvent {
                    shard: Shard::new(3).unwrap(),
                    position: *position,
                    stream_id: Uuid::nil(),
                    version: 1,
                    account_id: AccountId::from_uuid(Uuid::nil()),
                    event_id: EventId::from_uuid(Uuid::nil()),
                    event_type: "LinkCreated".to_owned(),
                    schema_version: 1,
                    payload: "{}".to_owned(),
                    metadata: Metadata::default(),
                    recorded_at: datetime!(2026-11-20 09:51:00 UTC),
                };
                PublishedEvent::new(event, *log_epoch)
            })
            .collect();
        let applied = apply_in_order(&records)?.into_iter();
        Ok(applied
            .map(|record| (record.log_epoch, record.event.position))
            .collect())
    }

    #[test]
    fn repeated_records_are_dropped() {
        let places = [1, 2, 3, 2, 3, 1, 2, 4, 5, 5].map(|position| (1, position));
        let applied = [1, 2, 3, 4, 5].map(|position| (1, position));
        assert_eq!(sequences(&places), Ok(applied.to_vec()));
    }

    #[test]
    fn gap_filled_later_is_still_reported() {
        let hole = sequences(&[(1, 1), (1, 3), (1, 2), (1, 3)]).unwrap_err();
        assert_eq!((hole.applied, hole.next), (1, 3));
        assert!(sequences(&[(1, 2)]).is_err());
    }

    #[test]
    fn new_epoch_resets_positions() {
        let places = [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)];
        assert_eq!(sequences(&places), Ok(vec![(1, 1), (1, 2), (2, 1), (2, 2)]));
    }
}
