//! Consumer of the counting: fetches the partitions of the shards that this process has claimed, each from its position in
//! Postgres.

pub(super) mod record;

use std::{collections::BTreeSet, future::Future, sync::Arc};

use anyhow::Context as _;
use futures::{FutureExt as _, StreamExt as _};
use linkledger_core::{
    click::{CLICK_PARTITIONS, tally::PartitionRecord},
    cloud_event::RecordKey,
    kafka_close::ClosedInTime,
    kafka_config::TopicName,
    kafka_errors::{KafkaErrors, KafkaWarnings, STATISTICS_INTERVAL},
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{Consumer as _, StreamConsumer},
    error::{KafkaError, KafkaResult},
};

use crate::{config::Config, pipeline::consumer::GROUP_ID};

/// Memory of records that the client fetches ahead, in KiB.
const FETCHED_AHEAD_KIB: &str = "8192";
/// Rights that the Kafka user of the projector needs.
const RIGHTS: &str = "Read and Describe on the topic of clicks, and Read on the group";

/// The consumer of the counting.
pub(super) struct ClickConsumer {
    inner: Arc<ClosedInTime<StreamConsumer<KafkaErrors>>>,
    topic: TopicName,
    /// Key of the records' codes; read before the first partition is fetched.
    key: Option<RecordKey>,
    /// The first record that cannot be read, and why, since the last call of [`Self::take_first_unreadable`].
    first_unreadable: Option<String>,
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
        let mut config: ClientConfig = settings.kafka.client_settings()?.collect();
        config
            .set("group.id", GROUP_ID)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("queued.max.messages.kbytes", FETCHED_AHEAD_KIB)
            .set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
        let inner = config
            .create_with_context(KafkaErrors::new(RIGHTS))
            .context("cannot create the Kafka consumer of clicks")?;
        Ok(Self {
            inner: Arc::new(ClosedInTime::new(inner)),
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
        let mut records = Vec::new();
        let errors = self.inner.context();
        let mut stream = self.inner.stream();
        let mut next = tokio::select! {
            biased;
            first = stream.next() => first,
            () = deadline => None,
        };
        let mut received = 0;
        while let Some(result) = next {
            match result {
                Ok(message) => {
                    let partition = u8::try_from(message.partition()).ok();
                    if let Some(partition) = partition.filter(|it| *it < CLICK_PARTITIONS)
                        && let Some(key) = &self.key
                    {
                        let (record, error) = record::read(partition, &message, key);
                        if let Some(error) = error {
                            let offset = record.offset;
                            let describe =
                                || format!("{error} (partition {partition}, offset {offset})");
                            self.first_unreadable.get_or_insert_with(describe);
                        }
                        records.push((partition, record));
                    }
                }
                Err(error @ KafkaError::MessageConsumptionFatal(_)) => {
                    return Err(error).context("cannot consume clicks");
                }
                Err(error) => errors.record(&error, ""),
            }
            received += 1;
            next = if received < records_max {
                stream.next().now_or_never().flatten()
            } else {
                None
            };
        }
        if !records.is_empty() {
            errors.clear();
        } else if let Some(error) = self.warnings.due(errors) {
            tracing::warn!(error, "trouble with Kafka: clicks are not counted");
        }
        Ok(records)
    }

    /// Sets the key of the records that are received from now on.
    pub(super) fn set_key(&mut self, key: RecordKey) {
        self.key = Some(key);
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

    /// Returns the first record that could not be read since the last call, and why.
    pub(super) fn take_first_unreadable(&mut self) -> Option<String> {
        self.first_unreadable.take()
    }

    /// Returns the reason to replace this consumer, if its client knows no broker any more.
    pub(super) fn take_lost_brokers(&self) -> Option<&'static str> {
        self.inner.context().take_lost_brokers()
    }

    /// Returns a handle for requests on other threads.
    pub(super) fn handle(&self) -> Arc<ClosedInTime<StreamConsumer<KafkaErrors>>> {
        Arc::clone(&self.inner)
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
        let inner = self.inner;
        if tokio::task::spawn_blocking(move || drop(inner))
            .await
            .is_err()
        {
            tracing::warn!("closing the Kafka client of clicks panicked");
        }
    }
}
