//! Reads records of the topic at given offsets, without a consumer group.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use linkledger_core::{
    click::{CLICK_PARTITIONS, tally::PartitionRecord},
    cloud_event::RecordKey,
    kafka_close::ClosedInTime,
    kafka_config::{KafkaConfig, TopicName},
    kafka_errors::KafkaErrors,
    kafka_leaders::once_led,
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{Consumer as _, StreamConsumer},
    error::{KafkaError, KafkaResult},
};
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::clicks::{
    consumer::record,
    topic_ends::{self, ANSWER_TIME_MAX, PartitionEnds},
};

/// Longest wait for a record, below the idle timeout of the transaction.
const READ_TIME_MAX: Duration = Duration::from_secs(30);
/// Group id, which librdkafka requires; nothing is committed, and the group is never joined.
const GROUP_ID: &str = "linkledger-clicks-recount";
/// Memory of records that the client fetches ahead, in KiB.
const FETCHED_AHEAD_KIB: &str = "8192";
/// Longest wait of the broker for new records, in milliseconds.
const FETCH_WAIT_MS: &str = "10";
/// Rights that the Kafka user of the command needs.
const RIGHTS: &str = "Read and Describe on the topic of clicks";

/// Consumer of the topic.
pub(super) struct TopicReader {
    inner: Arc<ClosedInTime<StreamConsumer<KafkaErrors>>>,
    topic: TopicName,
    key: RecordKey,
}

/// A record with the instant that the topic has for it.
pub(super) struct TopicRecord {
    pub(super) record: PartitionRecord,
    pub(super) at: Option<OffsetDateTime>,
}

/// A partition that is read.
pub(super) struct PartitionReading<'a> {
    reader: &'a TopicReader,
    partition: u8,
    /// True after the last record.
    is_ended: bool,
}

impl TopicReader {
    /// Creates the consumer, which connects when first used.
    pub(super) fn open(kafka: &KafkaConfig, key: RecordKey) -> anyhow::Result<Self> {
        let mut config: ClientConfig = kafka.client_settings()?.collect();
        config
            .set("group.id", GROUP_ID)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            // Retention may remove the first records meanwhile.
            .set("auto.offset.reset", "earliest")
            .set("allow.auto.create.topics", "false")
            // A fetch of one partition delays the next one, and nothing new is waited for.
            .set("fetch.wait.max.ms", FETCH_WAIT_MS)
            .set("queued.max.messages.kbytes", FETCHED_AHEAD_KIB);
        let inner = config
            .create_with_context(KafkaErrors::new(RIGHTS))
            .context("cannot create the Kafka consumer of clicks")?;
        Ok(Self {
            inner: Arc::new(ClosedInTime::new(inner)),
            topic: kafka.topic.clone(),
            key,
        })
    }

    /// Returns begin and end of every partition.
    pub(super) async fn ends(&self) -> anyhow::Result<BTreeMap<u8, PartitionEnds>> {
        let ends = self.ask(topic_ends::ask).await?;
        if ends.len() < usize::from(CLICK_PARTITIONS) {
            bail!(
                "the topic of clicks `{}` lacks partitions, or does not exist",
                self.topic
            );
        }
        Ok(ends)
    }

    /// Returns the first offset since the instant, of each partition that has one.
    pub(super) async fn first_offsets_since(
        &self,
        since: OffsetDateTime,
    ) -> anyhow::Result<BTreeMap<u8, i64>> {
        let milliseconds = (since.unix_timestamp() * 1_000).max(0);
        let place = Offset::Offset(milliseconds);
        self.ask(move |consumer, list| topic_ends::offsets(consumer, list, place))
            .await
    }

    /// Asks about all partitions, on a thread of its own.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&StreamConsumer<KafkaErrors>, &TopicPartitionList) -> KafkaResult<T>
        + Send
        + 'static,
    ) -> anyhow::Result<T> {
        let mut list = TopicPartitionList::new();
        for partition in 0..CLICK_PARTITIONS {
            list.add_partition(self.topic.as_str(), partition.into());
        }
        let consumer = Arc::clone(&self.inner);
        let asking = move || once_led(ANSWER_TIME_MAX, || question(&consumer, &list));
        let asked = tokio::task::spawn_blocking(asking).await;
        let asked = asked.context("a request to Kafka panicked")?;
        asked
            .context("cannot read the offsets of the topic of clicks")
            .map_err(|error| self.explain(error))
    }

    /// Returns the first record from the offset on; `None` at the end of the partition.
    pub(super) async fn first_from(
        &self,
        partition: u8,
        offset: i64,
    ) -> anyhow::Result<Option<TopicRecord>> {
        self.read(partition, offset)?.next_record().await
    }

    /// Begins to read a partition. Replaces the assignment.
    pub(super) fn read(&self, partition: u8, offset: i64) -> anyhow::Result<PartitionReading<'_>> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(
            self.topic.as_str(),
            partition.into(),
            Offset::Offset(offset),
        )
        .and_then(|()| self.inner.assign(&list))
        .context("cannot read a partition of the topic of clicks")?;
        Ok(PartitionReading {
            reader: self,
            partition,
            is_ended: false,
        })
    }

    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        self.inner.context().explain(error)
    }
}

impl PartitionReading<'_> {
    /// Returns up to `records_max` records before the offset `end`; none after the last one.
    pub(super) async fn next(
        &mut self,
        end: i64,
        records_max: usize,
    ) -> anyhow::Result<Vec<PartitionRecord>> {
        let mut records = Vec::new();
        while !self.is_ended && records.len() < records_max {
            let Some(TopicRecord { record, .. }) = self.next_record().await? else {
                break;
            };
            self.is_ended = record.offset + 1 >= end;
            if record.offset < end {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// Returns the next record; `None` at the end of the partition.
    async fn next_record(&mut self) -> anyhow::Result<Option<TopicRecord>> {
        let mut stream = self.reader.inner.stream();
        let errors = self.reader.inner.context();
        let next = async {
            loop {
                match stream.next().await {
                    Some(Ok(message)) if message.partition() == i32::from(self.partition) => {
                        return Ok(Some(TopicRecord {
                            record: record::read(self.partition, &message, &self.reader.key).0,
                            at: message.timestamp().to_millis().and_then(instant),
                        }));
                    }
                    Some(Err(KafkaError::PartitionEOF(partition)))
                        if partition == i32::from(self.partition) =>
                    {
                        return Ok(None);
                    }
                    None => bail!("the Kafka consumer of clicks has ended"),
                    Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                        return Err(error).context("cannot consume clicks");
                    }
                    // A lost broker is waited for, and errors of the unused group are ignored.
                    Some(Err(error)) => errors.record(&error, ""),
                    Some(Ok(_)) => {}
                }
            }
        };
        let Ok(next) = timeout(READ_TIME_MAX, next).await else {
            let advice = errors.most_specific();
            bail!(
                "the topic of clicks gave no record within {} s: {}",
                READ_TIME_MAX.as_secs(),
                advice.unwrap_or_else(|| "the broker does not answer".to_owned())
            );
        };
        if matches!(next, Ok(None)) {
            self.is_ended = true;
        }
        next
    }
}

fn instant(milliseconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000).ok()
}
