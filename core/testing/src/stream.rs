//! The topic as a consumer from the beginning has it who keeps the rule of the contract: a record
//! is applied only if its sequence is above the highest one applied in its partition and epoch.

use std::{
    collections::HashMap,
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
    event_store::log::{self, PerShard, ReadFrom},
    kafka_config::KafkaConfig,
    shard::{Position, SHARD_COUNT, Shard},
};

/// How long reading what is left may take, in minutes.
const READ_TIME_MAX: Duration = Duration::from_mins(2);
/// How long a partition's end is asked for.
const WATERMARKS_TIME_MAX: Duration = Duration::from_secs(30);

/// All records of the topic.
pub struct Stream {
    /// By partition, as they stand there.
    pub records: PerShard<Vec<PublishedEvent>>,
}

impl Stream {
    /// Reads the topic from its beginning to its end.
    pub async fn read(kafka: &KafkaConfig) -> Self {
        Self::follow(kafka).to_the_end().await
    }

    /// Reads the topic from its beginning on, while it is written: for tests that write more than
    /// the embedded broker keeps.
    pub fn follow(kafka: &KafkaConfig) -> Following {
        let kafka = kafka.clone();
        let (all_is_written, written) = mpsc::channel();
        let read = move || read_while(&consumer(&kafka), kafka.topic.as_str(), &written);
        Following {
            all_is_written,
            reading: tokio::task::spawn_blocking(read),
        }
    }

    /// What the consumer applies, and how many records it drops as repeated.
    ///
    /// # Panics
    /// At a record that jumps forward: a hole that the consumer would not see filled.
    pub fn applied(&self) -> (PerShard<Vec<RecordedEvent>>, usize) {
        let mut repeated = 0;
        let applied = self.records.each_ref().map(|records| {
            let applied = apply_in_order(records).unwrap_or_else(|hole| panic!("{hole:?}"));
            repeated += records.len() - applied.len();
            applied.iter().map(|it| it.event.clone()).collect()
        });
        (applied, repeated)
    }

    /// Asserts that the consumer has exactly the log, in order; returns how many records were
    /// repeated.
    pub async fn assert_is_the_log(kafka: &KafkaConfig, pool: &PgPool) -> usize {
        Self::read(kafka).await.assert_equals_log(pool).await
    }

    /// The same of what was read.
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

/// A topic that is read while it is written, until this is dropped.
pub struct Following {
    all_is_written: mpsc::Sender<()>,
    reading: JoinHandle<PerShard<Vec<PublishedEvent>>>,
}

impl Following {
    /// All records, once nothing more is published.
    pub async fn to_the_end(self) -> Stream {
        let Self {
            all_is_written,
            reading,
        } = self;
        // Whoever does not hear it has failed, which is seen next.
        all_is_written.send(()).ok();
        let records = reading.await.expect("the topic is read");
        // Until then: who drops it wants nothing any more.
        drop(all_is_written);
        Stream { records }
    }
}

/// A record for whose predecessor the consumer would wait in vain.
#[derive(Debug, PartialEq, Eq)]
struct Hole {
    shard: Shard,
    applied: Position,
    next: Position,
}

/// The records of one partition that are applied.
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

fn consumer(kafka: &KafkaConfig) -> BaseConsumer {
    let settings = kafka.client_settings().expect("settings of a test");
    let consumer: BaseConsumer = settings
        .collect::<ClientConfig>()
        .set("group.id", "linkledger-test")
        .set("enable.auto.commit", "false")
        // What the broker has dropped before it was read is a hole, not the end.
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", "10")
        .create()
        .expect("a consumer is made");
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_range(kafka.topic.as_str(), 0, i32::from(SHARD_COUNT) - 1);
    partitions
        .set_all_offsets(Offset::Beginning)
        .expect("there are partitions");
    consumer.assign(&partitions).expect("they are assigned");
    consumer
}

/// Reads until what is there when all is written has been read, or nobody wants it any more.
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
        let is_in_time = until.is_none_or(|until| Instant::now() < until);
        assert!(is_in_time, "the topic does not end");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) => {
                let event = event(&record);
                let index = event.event.shard.index();
                offsets[index] = record.offset() + 1;
                records[index].push(event);
            }
            None if until.is_some() && is_at_end(consumer, topic, &offsets) => return records,
            // An error is that of a broker that has just come back, which is asked again.
            Some(Err(_)) | None => {}
        }
    }
}

/// Whether every partition has been read, or is empty.
fn is_at_end(consumer: &BaseConsumer, topic: &str, offsets: &PerShard<i64>) -> bool {
    Shard::all().all(|shard| {
        let partition = i32::from(shard.number());
        let watermarks = consumer.fetch_watermarks(topic, partition, WATERMARKS_TIME_MAX);
        watermarks.is_ok_and(|(low, high)| low == high || offsets[shard.index()] >= high)
    })
}

fn event(record: &BorrowedMessage<'_>) -> PublishedEvent {
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec());
    let headers: HashMap<String, String> = record
        .headers()
        .expect("every record has headers")
        .iter()
        .map(|header| {
            let value = text(header.value).expect("headers are text");
            (header.key.to_owned(), value)
        })
        .collect();
    let headers = headers.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let shard = Shard::new(record.partition().into()).expect("a partition is a shard");
    let payload = text(record.payload()).expect("payloads are text");
    PublishedEvent::from_record(shard, &headers.collect(), payload).expect("it is one of ours")
}

/// The log as consumers may know it.
async fn read_log(pool: &PgPool) -> PerShard<Vec<RecordedEvent>> {
    let from: Vec<ReadFrom> = Shard::all()
        .map(|shard| ReadFrom { shard, after: 0 })
        .collect();
    let events = log::read_after(pool, &from, i64::MAX).await;
    let mut log = PerShard::<Vec<RecordedEvent>>::default();
    for mut event in events.expect("the log is read") {
        event.metadata = Metadata {
            traceparent: event.metadata.traceparent,
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

    fn sequences(places: &[(i32, Position)]) -> Result<Vec<(i32, Position)>, Hole> {
        let records: Vec<_> = places
            .iter()
            .map(|(log_epoch, position)| PublishedEvent {
                log_epoch: *log_epoch,
                event: RecordedEvent {
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
                },
            })
            .collect();
        let applied = apply_in_order(&records)?.into_iter();
        Ok(applied
            .map(|it| (it.log_epoch, it.event.position))
            .collect())
    }

    #[test]
    fn a_run_of_earlier_records_is_dropped() {
        let places = [1, 2, 3, 2, 3, 1, 2, 4, 5, 5].map(|position| (1, position));
        let applied = [1, 2, 3, 4, 5].map(|position| (1, position));
        assert_eq!(sequences(&places), Ok(applied.to_vec()));
    }

    #[test]
    fn a_jump_forward_is_a_hole_even_if_it_is_filled_later() {
        let hole = sequences(&[(1, 1), (1, 3), (1, 2), (1, 3)]).unwrap_err();
        assert_eq!((hole.applied, hole.next), (1, 3));
        assert!(sequences(&[(1, 2)]).is_err());
    }

    #[test]
    fn a_new_epoch_begins_anew_and_ends_the_one_before() {
        let places = [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)];
        assert_eq!(sequences(&places), Ok(vec![(1, 1), (1, 2), (2, 1), (2, 2)]));
    }
}
