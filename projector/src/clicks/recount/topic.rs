//! Reads records of the topic at given offsets, without a consumer group.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use linkledger_clicks::{CLICK_PARTITIONS, tally::PartitionRecord};
use linkledger_core::cloud_event::RecordKey;
use linkledger_service::{
    kafka_config::{KafkaConfig, TopicName},
    kafka_errors::KafkaErrors,
    kafka_leaders::once_led,
};
use rdkafka::{
    Message as _, Offset, TopicPartitionList,
    consumer::{Consumer as _, StreamConsumer},
    error::{KafkaError, KafkaResult},
};
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::{
    clicks::{
        consumer::{FETCHED_AHEAD_KIB, record},
        topic_ends::{self, ANSWER_TIME_MAX, PartitionEnds},
    },
    pipeline::consumer::{KafkaClient, client},
};

/// Longest wait for a record, below the idle timeout of the transaction.
const READ_TIME_MAX: Duration = Duration::from_secs(30);
/// Group id, which librdkafka requires; nothing is committed, and the group is never joined.
const GROUP_ID: &str = "linkledger-clicks-recount";
/// Rights that the Kafka user of the command needs.
const RIGHTS: &str = "Read and Describe on the topic of clicks";

/// Consumer of the topic.
pub(super) struct TopicReader {
    inner: Arc<KafkaClient>,
    topic: TopicName,
    key: RecordKey,
}

/// A record with the instant that the topic has for it.
pub(super) struct TopicRecord {
    pub(super) record: PartitionRecord,
    pub(super) at: Option<OffsetDateTime>,
}

impl TopicReader {
    /// Creates the consumer, which connects when first used.
    pub(super) fn open(kafka: &KafkaConfig, key: RecordKey) -> anyhow::Result<Self> {
        let options = [
            ("group.id", GROUP_ID),
            ("enable.partition.eof", "true"),
            // Retention may remove the first records meanwhile.
            ("auto.offset.reset", "earliest"),
            ("allow.auto.create.topics", "false"),
            // A fetch of one partition delays the next one, and nothing new is waited for.
            ("fetch.wait.max.ms", "10"),
            ("queued.max.messages.kbytes", FETCHED_AHEAD_KIB),
        ];
        Ok(Self {
            inner: Arc::new(client(kafka, RIGHTS, &options)?),
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
            .map_err(|error| self.inner.context().explain(error))
    }

    /// Returns the first record from the offset on; `None` at the end of the partition.
    pub(super) async fn first_from(
        &self,
        partition: u8,
        offset: i64,
    ) -> anyhow::Result<Option<TopicRecord>> {
        self.begin(partition, offset)?;
        self.next(partition).await
    }

    /// Begins to read a partition at an offset, and no other one.
    pub(super) fn begin(&self, partition: u8, offset: i64) -> anyhow::Result<()> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(
            self.topic.as_str(),
            partition.into(),
            Offset::Offset(offset),
        )
        .and_then(|()| self.inner.assign(&list))
        .context("cannot read a partition of the topic of clicks")
    }

    /// Returns the next records of the partition that is read, up to `records_max`, and true if they are the last ones
    /// before the offset `end`.
    pub(super) async fn next_chunk(
        &self,
        partition: u8,
        end: i64,
        records_max: usize,
    ) -> anyhow::Result<(Vec<PartitionRecord>, bool)> {
        let mut records = Vec::new();
        while records.len() < records_max {
            let next = self.next(partition).await?.map(|next| next.record);
            let next = next.filter(|record| record.offset < end);
            let is_last = next.as_ref().is_none_or(|record| record.offset + 1 == end);
            records.extend(next);
            if is_last {
                return Ok((records, true));
            }
        }
        Ok((records, false))
    }

    /// Returns the next record of the partition that is read; `None` at the end of the partition.
    async fn next(&self, partition: u8) -> anyhow::Result<Option<TopicRecord>> {
        let mut stream = self.inner.stream();
        let errors = self.inner.context();
        let next = async {
            loop {
                match stream.next().await {
                    Some(Ok(message)) if message.partition() == i32::from(partition) => {
                        return Ok(Some(TopicRecord {
                            record: record::read(partition, &message, &self.key).0,
                            at: message.timestamp().to_millis().and_then(instant),
                        }));
                    }
                    Some(Err(KafkaError::PartitionEOF(ended))) if ended == i32::from(partition) => {
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
        timeout(READ_TIME_MAX, next).await.unwrap_or_else(|_| {
            let advice = errors.most_specific();
            bail!(
                "the topic of clicks gave no record within {} s: {}",
                READ_TIME_MAX.as_secs(),
                advice.unwrap_or_else(|| "the broker does not answer".to_owned())
            );
        })
    }
}

fn instant(milliseconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000).ok()
}
