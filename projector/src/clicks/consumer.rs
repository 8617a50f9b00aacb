//! Consumer of the aggregation: fetches the partitions of the shards that this process has claimed, each from its
//! position in Postgres.

pub(super) mod record;

use std::{collections::BTreeSet, future::Future, sync::Arc};

use linkledger_clicks::{CLICK_PARTITIONS, tally::PartitionRecord};
use linkledger_core::cloud_event::RecordKey;
use linkledger_service::{kafka_config::TopicName, kafka_errors::KafkaWarnings};
use rdkafka::{
    Message as _, Offset, TopicPartitionList, consumer::Consumer as _, error::KafkaResult,
};

use crate::{
    config::Config,
    pipeline::consumer::{self, KafkaClient},
};

/// Memory of records that the client fetches ahead, in KiB.
pub(super) const FETCHED_AHEAD_KIB: &str = "8192";
/// Rights that the Kafka user of the projector needs.
const RIGHTS: &str = "Read and Describe on the topic of clicks, and Read on the group";

/// The consumer of the aggregation.
pub(super) struct ClickConsumer {
    /// Client, which requests on other threads share.
    pub(super) inner: Arc<KafkaClient>,
    topic: TopicName,
    /// Key of the records' codes; read before the first partition is fetched.
    pub(super) key: Option<RecordKey>,
    /// The first record that cannot be read, and why, since the last report.
    pub(super) first_unreadable: Option<String>,
    /// Partitions that the client fetches.
    fetched: BTreeSet<u8>,
    warnings: KafkaWarnings,
}

impl ClickConsumer {
    /// Connects in the background, so that the brokers may be down at the start.
    ///
    /// # Errors
    /// Returns an error if the Kafka client refuses the settings.
    pub(super) fn new(settings: &Config) -> anyhow::Result<Self> {
        let options = [
            ("auto.offset.reset", "earliest"),
            ("queued.max.messages.kbytes", FETCHED_AHEAD_KIB),
        ];
        Ok(Self {
            inner: Arc::new(consumer::client(&settings.kafka, RIGHTS, &options)?),
            topic: settings.clicks.clicks_topic.clone(),
            key: None,
            first_unreadable: None,
            fetched: BTreeSet::new(),
            warnings: KafkaWarnings::default(),
        })
    }

    /// Receives up to `records_max` records with their partitions, in the order of arrival. Waits for the first record
    /// until `deadline` completes.
    ///
    /// # Errors
    /// Returns an error if the Kafka client has failed for good.
    pub(super) async fn receive(
        &mut self,
        records_max: usize,
        deadline: impl Future<Output = ()>,
    ) -> anyhow::Result<Vec<(u8, PartitionRecord)>> {
        let messages = consumer::receive(&self.inner, records_max, deadline).await?;
        let errors = self.inner.context();
        let mut records = Vec::new();
        for message in &messages {
            let partition = u8::try_from(message.partition()).ok();
            if let Some(partition) = partition.filter(|it| *it < CLICK_PARTITIONS)
                && let Some(key) = &self.key
            {
                let (record, error) = record::read(partition, message, key);
                if let Some(error) = error {
                    let offset = record.offset;
                    let describe = || format!("{error} (partition {partition}, offset {offset})");
                    self.first_unreadable.get_or_insert_with(describe);
                }
                records.push((partition, record));
            }
        }
        if !records.is_empty() {
            errors.clear();
        } else if let Some(error) = self.warnings.due(errors) {
            tracing::warn!(error, "trouble with Kafka: clicks are not counted");
        }
        Ok(records)
    }

    /// Begins to fetch a partition at an offset, or again at another one. Records of a former fetch are
    /// not received any more.
    ///
    /// # Errors
    /// Returns an error if the client refuses the partition.
    pub(super) fn begin(&mut self, partition: u8, from: Offset) -> KafkaResult<()> {
        self.end(partition);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(self.topic.as_str(), partition.into(), from)?;
        self.inner.incremental_assign(&list)?;
        // A former fetch of the partition may have been paused.
        self.inner.resume(&self.list([partition]))?;
        self.fetched.insert(partition);
        Ok(())
    }

    /// Ends the fetch of a partition, if there is one.
    pub(super) fn end(&mut self, partition: u8) {
        if self.fetched.remove(&partition)
            && let Err(error) = self.inner.incremental_unassign(&self.list([partition]))
        {
            tracing::debug!(%error, partition, "cannot end the fetch of a partition of clicks");
        }
    }

    /// Pauses or resumes the fetch of a partition.
    ///
    /// # Errors
    /// Returns an error if the partition is not fetched.
    pub(super) fn set_paused(&self, partition: u8, is_paused: bool) -> KafkaResult<()> {
        let list = self.list([partition]);
        if is_paused {
            self.inner.pause(&list)
        } else {
            self.inner.resume(&list)
        }
    }

    /// Returns the reason to replace this consumer, if its client knows no broker any more.
    pub(super) fn take_lost_brokers(&self) -> Option<&'static str> {
        self.inner.context().take_lost_brokers()
    }

    /// Returns a list of these partitions of the topic.
    pub(super) fn list(&self, partitions: impl IntoIterator<Item = u8>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(self.topic.as_str(), partition.into());
        }
        list
    }

    /// Closes the client, unless a request for the ends of the topic still runs: it ends by itself, and the client with
    /// it.
    pub(super) async fn close(self) {
        consumer::close(self.inner).await;
    }
}
