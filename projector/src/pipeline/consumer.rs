//! The member of the consumer group: receives changes of the assignment, and records of the
//! assigned partitions.
//!
//! Committed offsets are only a hint where to start consuming. The checkpoints in Postgres are
//! authoritative.

mod group;
mod key;
mod record;
mod unreadable_records;

use std::{future::Future, mem, time::Duration};

use anyhow::Context as _;
use futures::{FutureExt as _, StreamExt as _};
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::log::PerShard,
    kafka_close,
    kafka_config::TopicName,
    kafka_errors::{KafkaErrorKind, STATISTICS_INTERVAL},
    shard::Shard,
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    error::KafkaError,
};
use sqlx::PgPool;
use tokio::{task::spawn_blocking, time::Instant};

pub use self::group::AssignmentChange;
use self::{group::GroupContext, key::KnownKey, unreadable_records::UnreadableRecords};
use crate::config::Config;

/// Shortest time between two commits of the offsets.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the group's answer when this process leaves the group: as long as a group with the classic
/// protocol waits until it expels a silent member by itself.
pub(crate) const LEAVE_TIME_MAX: Duration = Duration::from_secs(6);

/// Interval at which the same Kafka error is logged again.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// Assignment changes and events since the previous delivery.
#[derive(Debug, Default)]
pub struct Delivery {
    /// Changes in the order in which the group made them, all before `events`.
    pub assignment_changes: Vec<AssignmentChange>,
    /// Events in order of arrival.
    pub events: Vec<PublishedEvent>,
}

/// A member of the consumer group.
pub struct Consumer {
    inner: StreamConsumer<GroupContext>,
    settings: Config,
    topic: TopicName,
    /// Offset of the next record of each partition, if not committed yet.
    next_offsets: PerShard<Option<i64>>,
    committed_at: Instant,
    key: KnownKey,
    unreadable: UnreadableRecords,
    /// Kind and time of the last warning.
    last_warning: Option<(KafkaErrorKind, Instant)>,
}

impl Consumer {
    /// Joins the group in the background, so that the brokers may be down at the start. The database of the log has the
    /// key of the records.
    ///
    /// # Errors
    /// Returns an error if the Kafka client refuses the settings.
    pub fn join(settings: &Config, log: PgPool) -> anyhow::Result<Self> {
        Ok(Self {
            inner: subscribed(settings)?,
            settings: settings.clone(),
            topic: settings.kafka.topic.clone(),
            next_offsets: PerShard::default(),
            committed_at: Instant::now(),
            key: KnownKey::new(log),
            unreadable: UnreadableRecords::default(),
            last_warning: None,
        })
    }

    /// Receives up to `records_max` records. Waits for the first record until `deadline` completes.
    ///
    /// # Errors
    /// Returns an error if the Kafka client has failed for good.
    pub async fn receive(
        &mut self,
        records_max: usize,
        deadline: impl Future<Output = ()>,
    ) -> anyhow::Result<Delivery> {
        if let Some(lost) = self.inner.context().errors.take_lost_brokers() {
            tracing::warn!("{lost}");
            return Ok(self.rejoin().await);
        }
        let mut events = Vec::new();
        let errors = &self.inner.context().errors;
        let mut stream = self.inner.stream();
        let mut next = tokio::select! {
            biased;
            first = stream.next() => first,
            () = deadline => None,
        };
        let key = match next {
            Some(_) => self.key.get().await,
            None => None,
        };
        let mut records = 0;
        while let Some(result) = next {
            match result {
                Ok(message) => {
                    if let Some(shard) = Shard::new(message.partition().into())
                        && let Some(key) = &key
                    {
                        self.next_offsets[shard.index()] = Some(message.offset() + 1);
                        match record::event_of(shard, &message, key) {
                            Ok(event) => events.push(event),
                            Err(error) => self.unreadable.add(|| {
                                let (partition, offset) = (message.partition(), message.offset());
                                format!("{error} (partition {partition}, offset {offset})")
                            }),
                        }
                    }
                }
                Err(error @ KafkaError::MessageConsumptionFatal(_)) => {
                    return Err(error).context("cannot consume");
                }
                Err(error) => errors.record(&error, ""),
            }
            records += 1;
            next = if records < records_max {
                stream.next().now_or_never().flatten()
            } else {
                None
            };
        }
        drop(stream);
        if self.unreadable.log_if_due() {
            // The log may have another key now.
            self.key.forget();
        }
        let assignment_changes = self.inner.context().take_assignment_changes();
        self.drop_offsets(&assignment_changes);
        if events.is_empty() && assignment_changes.is_empty() {
            self.warn_of_errors();
        } else {
            self.inner.context().errors.clear();
        }
        Ok(Delivery {
            assignment_changes,
            events,
        })
    }

    /// Commits the offsets, at most once per `COMMIT_INTERVAL`. Neither waits nor fails: after an
    /// older offset, the next consumer drops the duplicates.
    pub fn commit_offsets_if_due(&mut self) {
        if self.committed_at.elapsed() >= COMMIT_INTERVAL {
            self.commit_offsets();
        }
    }

    /// Replaces the client by one that joins the group again. The projector keeps its shards, and reads them from
    /// the event store, until the group assigns them again. If the new client cannot be made, the former one
    /// stays until two more of its statistics name no broker.
    async fn rejoin(&mut self) -> Delivery {
        let settings = self.settings.clone();
        let joining = spawn_blocking(move || subscribed(&settings)).await;
        let joining = joining.context("joining the consumer group panicked");
        let joined = match joining.flatten() {
            Ok(joined) => joined,
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot join the consumer group again; retrying within 20 s"
                );
                return Delivery::default();
            }
        };
        let former = mem::replace(&mut self.inner, joined);
        drop(spawn_blocking(move || {
            kafka_close::close_in_time(move || drop(former))
        }));
        self.next_offsets = PerShard::default();
        Delivery {
            assignment_changes: vec![AssignmentChange::Lost(Shard::all().collect())],
            events: Vec::new(),
        }
    }

    /// Commits the remaining offsets and leaves the group.
    pub async fn leave(mut self) {
        self.commit_offsets();
        let inner = self.inner;
        // Dropping the consumer blocks until the brokers have answered, also to the commit above.
        let leaving = move || kafka_close::close_within(LEAVE_TIME_MAX, move || drop(inner));
        if spawn_blocking(leaving).await.is_err() {
            tracing::warn!("leaving the consumer group panicked");
        }
    }

    fn commit_offsets(&mut self) {
        let mut offsets = TopicPartitionList::new();
        for shard in Shard::all() {
            let Some(next) = self.next_offsets[shard.index()].take() else {
                continue;
            };
            let (topic, partition) = (self.topic.as_str(), shard.number().into());
            let added = offsets.add_partition_offset(topic, partition, Offset::Offset(next));
            if let Err(error) = added {
                tracing::warn!(%shard, %error, "cannot commit the offset of a partition");
            }
        }
        self.committed_at = Instant::now();
        if offsets.count() == 0 {
            return;
        }
        if let Err(error) = self.inner.commit(&offsets, CommitMode::Async) {
            tracing::warn!(%error, "cannot commit offsets");
        }
    }

    /// Logs the most specific Kafka error. The client reconnects by itself, and the engine goes on
    /// without the topic.
    ///
    /// A more specific error than the previous one is logged at once, any other error once per
    /// [`WARNING_INTERVAL`].
    fn warn_of_errors(&mut self) {
        let Some((kind, error)) = self.inner.context().errors.most_specific() else {
            return;
        };
        let is_due = self
            .last_warning
            .is_none_or(|(last, at)| kind > last || at.elapsed() >= WARNING_INTERVAL);
        if is_due {
            self.last_warning = Some((kind, Instant::now()));
            tracing::warn!(error, "trouble with Kafka");
        }
    }

    /// Drops the offsets of partitions that are no longer assigned: the group would refuse them.
    fn drop_offsets(&mut self, assignment_changes: &[AssignmentChange]) {
        for change in assignment_changes {
            match change {
                AssignmentChange::Assigned(_) => {}
                AssignmentChange::Revoked(shards) | AssignmentChange::Lost(shards) => {
                    for shard in shards {
                        self.next_offsets[shard.index()] = None;
                    }
                }
            }
        }
    }
}

/// Returns a client that joins the group in the background.
fn subscribed(settings: &Config) -> anyhow::Result<StreamConsumer<GroupContext>> {
    let kafka = &settings.kafka;
    let mut config: ClientConfig = kafka.client_settings()?.collect();
    config
        .set("group.id", &settings.group_id)
        // A new group, or a group with expired offsets, must not skip the records on the topic.
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // Somebody else's open transaction must not hide records.
        .set("isolation.level", "read_uncommitted")
        .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
        // Fetching ahead would split the records of one transaction into many small fetches.
        .set("queued.min.messages", "1")
        .set("fetch.queue.backoff.ms", "2")
        .set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
    for (name, value) in settings.group_protocol.client_settings() {
        config.set(*name, *value);
    }
    let inner: StreamConsumer<GroupContext> = config
        .create_with_context(GroupContext::new())
        .context("cannot create the Kafka consumer")?;
    inner
        .subscribe(&[kafka.topic.as_str()])
        .context("cannot subscribe to the topic")?;
    Ok(inner)
}

#[cfg(test)]
mod tests;
