//! Member of the consumer group of a counting.
//!
//! The group assigns partitions; where their reading begins is decided by the positions in Postgres. Committed
//! offsets are not used, so a partition is fetched only after [`ClickConsumer::begin`].

mod group;
pub(super) mod record;

use std::{future::Future, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::{FutureExt as _, StreamExt as _};
use linkledger_core::{
    click::{CLICK_PARTITIONS, Counting, tally::PartitionRecord},
    kafka_close,
    kafka_config::TopicName,
    kafka_errors::{LostBrokers, STATISTICS_INTERVAL},
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{Consumer as _, StreamConsumer},
    error::{KafkaError, KafkaResult},
};

pub(super) use self::group::AssignmentChange;
use self::group::GroupContext;
use crate::config::Config;

/// Longest wait for the group's answer when this process leaves the group: as long as a group with the classic
/// protocol waits until it expels a silent member by itself.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(6);

/// Memory of records that the client fetches ahead, in KiB.
const FETCHED_AHEAD_KIB: &str = "8192";

/// Assignment changes and records since the previous delivery.
#[derive(Debug, Default)]
pub(super) struct ClickDelivery {
    /// Changes in the order in which the group made them, all before `records`.
    pub(super) assignment_changes: Vec<AssignmentChange>,
    /// Records with their partitions, in the order of arrival.
    pub(super) records: Vec<(u8, PartitionRecord)>,
}

/// A member of the consumer group of a counting.
pub(super) struct ClickConsumer {
    inner: Arc<StreamConsumer<GroupContext>>,
    counting: Counting,
    topic: TopicName,
}

impl ClickConsumer {
    /// Joins the group in the background, so that the brokers may be down at the start.
    ///
    /// # Errors
    /// Returns an error if the Kafka client refuses the settings.
    pub(super) fn join(counting: Counting, settings: &Config) -> anyhow::Result<Self> {
        let mut config: ClientConfig = settings.kafka.client_settings()?.collect();
        config
            .set(
                "group.id",
                format!("{}-clicks-{counting}", settings.group_id),
            )
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("queued.max.messages.kbytes", FETCHED_AHEAD_KIB)
            .set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
        for (name, value) in settings.group_protocol.client_settings() {
            config.set(*name, *value);
        }
        let inner: StreamConsumer<GroupContext> = config
            .create_with_context(GroupContext::new(counting))
            .context("cannot create the Kafka consumer of clicks")?;
        let topic = settings.clicks.clicks_topic.clone();
        inner
            .subscribe(&[topic.as_str()])
            .context("cannot subscribe to the topic of clicks")?;
        Ok(Self {
            inner: Arc::new(inner),
            counting,
            topic,
        })
    }

    /// Receives up to `records_max` records. Waits for the first record until `deadline` completes.
    ///
    /// # Errors
    /// Returns an error if the Kafka client has failed for good.
    pub(super) async fn receive(
        &self,
        records_max: usize,
        deadline: impl Future<Output = ()>,
    ) -> anyhow::Result<ClickDelivery> {
        let mut records = Vec::new();
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
                    if let Some(partition) = partition.filter(|it| *it < CLICK_PARTITIONS) {
                        records.push((partition, record::read(self.counting, &message)));
                    }
                }
                Err(error @ KafkaError::MessageConsumptionFatal(_)) => {
                    return Err(error).context("cannot consume clicks");
                }
                Err(error) => self.inner.context().errors.record(&error, ""),
            }
            received += 1;
            next = if received < records_max {
                stream.next().now_or_never().flatten()
            } else {
                None
            };
        }
        drop(stream);
        if records.is_empty() {
            self.inner.context().warn_of_errors();
        } else {
            self.inner.context().errors.clear();
        }
        Ok(ClickDelivery {
            assignment_changes: self.inner.context().take_assignment_changes(),
            records,
        })
    }

    /// Begins to fetch an assigned partition at an offset, or again at another one. Records of a former fetch are
    /// not received any more.
    ///
    /// # Errors
    /// Returns an error if the partition is not assigned any more.
    pub(super) fn begin(&self, partition: u8, from: Offset) -> KafkaResult<()> {
        self.end(partition);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(self.topic.as_str(), partition.into(), from)?;
        self.inner.incremental_assign(&list)?;
        // A former fetch of the partition may have been paused.
        self.inner.resume(&self.list([partition]))?;
        self.inner.context().set_fetched(partition, true);
        Ok(())
    }

    /// Ends the fetch of a partition, if there is one.
    pub(super) fn end(&self, partition: u8) {
        if self.inner.context().set_fetched(partition, false)
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

    /// Returns the reason to replace this member, if its client knows no broker any more.
    pub(super) fn take_lost_brokers(&self) -> Option<LostBrokers> {
        self.inner.context().errors.take_lost_brokers()
    }

    /// Returns a handle for requests on other threads.
    pub(super) fn handle(&self) -> Arc<StreamConsumer<GroupContext>> {
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

    /// Leaves the group. A request for the ends of the topic that still runs ends by itself, and its client with it.
    pub(super) async fn leave(self) {
        let inner = self.inner;
        let leaving = move || {
            // Also while a request keeps the client: an abandoned member would keep its partitions.
            inner.unsubscribe();
            // Dropping the consumer blocks until the brokers have answered.
            drop(inner);
        };
        let leaving = move || kafka_close::close_within(LEAVE_TIME_MAX, leaving);
        if tokio::task::spawn_blocking(leaving).await.is_err() {
            tracing::warn!("leaving the consumer group of clicks panicked");
        }
    }
}
