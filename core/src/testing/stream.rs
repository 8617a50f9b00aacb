//! The topic as a consumer from the beginning has it who keeps the rule of the contract: a record
//! is applied only if its sequence is above the highest one applied in its partition and epoch.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _},
};
use sqlx::PgPool;

use crate::{
    cloud_event::PublishedEvent,
    envelope::{Metadata, RecordedEvent},
    event_store::log::{self, PerShard, ReadFrom},
    kafka_config::KafkaConfig,
    shard::{Position, SHARD_COUNT, Shard},
};

/// How long reading the topic may take, in minutes.
const READ_TIME_MAX: Duration = Duration::from_mins(2);

/// All records of the topic.
pub struct Stream {
    /// By partition, as they stand there.
    pub records: PerShard<Vec<PublishedEvent>>,
}

impl Stream {
    /// Reads the topic from its beginning to its end.
    pub async fn read(kafka: &KafkaConfig) -> Self {
        let kafka = kafka.clone();
        let read = move || read_to_the_end(&kafka);
        let records = tokio::task::spawn_blocking(read).await;
        Self {
            records: records.expect("the topic is read"),
        }
    }

    /// What the consumer applies, and how many records it drops as repeated.
    ///
    /// # Panics
    /// At a record that jumps forward: a hole that the consumer would not see filled.
    pub fn applied(&self) -> (PerShard<Vec<RecordedEvent>>, usize) {
        let mut repeated = 0;
        let applied = self.records.each_ref().map(|records| {
            let applied = follow(records).unwrap_or_else(|hole| panic!("{hole:?}"));
            repeated += records.len() - applied.len();
            applied.iter().map(|it| it.event.clone()).collect()
        });
        (applied, repeated)
    }

    /// Asserts that the consumer has exactly the log, in order; returns how many records were
    /// repeated.
    pub async fn assert_is_the_log(kafka: &KafkaConfig, pool: &PgPool) -> usize {
        let stream = Self::read(kafka).await;
        let (applied, repeated) = stream.applied();
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

/// A record for whose predecessor the consumer would wait in vain.
#[derive(Debug, PartialEq, Eq)]
struct Hole {
    shard: Shard,
    applied: Position,
    next: Position,
}

/// The records of one partition that are applied.
fn follow(records: &[PublishedEvent]) -> Result<Vec<&PublishedEvent>, Hole> {
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

fn read_to_the_end(kafka: &KafkaConfig) -> PerShard<Vec<PublishedEvent>> {
    let settings = kafka.client_settings().expect("settings of a test");
    let consumer: BaseConsumer = settings
        .collect::<ClientConfig>()
        .set("group.id", "linkledger-test")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "10")
        .create()
        .expect("a consumer is made");
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_range(kafka.topic.as_str(), 0, i32::from(SHARD_COUNT) - 1);
    partitions
        .set_all_offsets(Offset::Beginning)
        .expect("there are partitions");
    consumer.assign(&partitions).expect("they are assigned");
    let mut records = PerShard::<Vec<PublishedEvent>>::default();
    let mut is_at_end = PerShard::<bool>::default();
    let until = Instant::now() + READ_TIME_MAX;
    while !is_at_end.iter().all(|it| *it) {
        assert!(Instant::now() < until, "the topic does not end");
        match consumer.poll(Duration::from_secs(1)) {
            Some(Ok(record)) => {
                let event = event(&record);
                records[event.event.shard.index()].push(event);
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                let shard = Shard::new(partition.into()).expect("a partition is a shard");
                is_at_end[shard.index()] = true;
            }
            // A broker that has just come back is asked again.
            Some(Err(_)) | None => {}
        }
    }
    records
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
    use crate::id::{AccountId, EventId};

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
        let applied = follow(&records)?.into_iter();
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
