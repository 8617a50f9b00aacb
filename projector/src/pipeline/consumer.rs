//! The member of the consumer group: which shards are ours, and the records of their partitions.
//!
//! Committed offsets are a hint where to start, and nothing else; the truth are the checkpoints.

mod group;
mod record;

use std::{future::Future, time::Duration};

use anyhow::Context as _;
use futures::{FutureExt as _, StreamExt as _};
use linkledger_core::{
    cloud_event::PublishedEvent, event_store::log::PerShard, kafka_config::TopicName,
    kafka_errors::KafkaErrorKind, shard::Shard,
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    error::KafkaError,
};
use tokio::time::Instant;

pub use self::group::Decision;
use self::{group::GroupContext, record::Unreadable};
use crate::config::{Config, GroupProtocol};

/// How often the offsets are committed, at most.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// How often trouble with the brokers is logged, at most.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(30);

/// What has arrived since the last time.
#[derive(Debug, Default)]
pub struct Delivery {
    /// In the order in which they were made; they come before the events.
    pub decisions: Vec<Decision>,
    /// In order of arrival.
    pub events: Vec<PublishedEvent>,
}

/// A member of the consumer group.
pub struct Consumer {
    inner: StreamConsumer<GroupContext>,
    topic: TopicName,
    /// Where to start the next time, if that was not committed yet.
    next_offsets: PerShard<Option<i64>>,
    committed_at: Instant,
    /// What was last told of, and when.
    told: Option<(KafkaErrorKind, Instant)>,
}

impl Consumer {
    /// Joins the group, sooner or later: the brokers may be down.
    ///
    /// # Errors
    /// When the settings can't be used.
    pub fn join(settings: &Config) -> anyhow::Result<Self> {
        let kafka = &settings.kafka;
        let mut config: ClientConfig = kafka.client_settings()?.collect();
        config
            .set("group.id", &settings.group_id)
            // A new group, or one whose offsets have expired, must not skip what is there.
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
            // What is applied next is fetched next. Fetching ahead would only make many small
            // fetches of what one transaction takes at once.
            .set("queued.min.messages", "1")
            .set("fetch.queue.backoff.ms", "2");
        match settings.group_protocol {
            GroupProtocol::Classic => config
                .set("partition.assignment.strategy", "cooperative-sticky")
                .set("session.timeout.ms", "6000")
                // A member hears of a rebalance by its heartbeat: until then shards lie idle.
                .set("heartbeat.interval.ms", "1000"),
            GroupProtocol::Consumer => config.set("group.protocol", "consumer"),
        };
        let inner: StreamConsumer<GroupContext> = config
            .create_with_context(GroupContext::new())
            .context("can't create the Kafka consumer")?;
        inner
            .subscribe(&[kafka.topic.as_str()])
            .context("can't subscribe to the topic")?;
        Ok(Self {
            inner,
            topic: kafka.topic.clone(),
            next_offsets: PerShard::default(),
            committed_at: Instant::now(),
            told: None,
        })
    }

    /// What has arrived, up to `records_max`; waits for something until `patience` is over.
    ///
    /// # Errors
    /// When the consumer can't go on.
    pub async fn receive(
        &mut self,
        records_max: usize,
        patience: impl Future<Output = ()>,
    ) -> anyhow::Result<Delivery> {
        let mut events = Vec::new();
        let mut unreadable = Unreadable::default();
        let trouble = &self.inner.context().trouble;
        let mut stream = self.inner.stream();
        let mut next = tokio::select! {
            biased;
            first = stream.next() => first,
            () = patience => None,
        };
        let mut records = 0;
        while let Some(result) = next {
            match result {
                Ok(message) => {
                    if let Some(shard) = Shard::new(message.partition().into()) {
                        self.next_offsets[shard.index()] = Some(message.offset() + 1);
                        match record::event_of(shard, &message) {
                            Ok(event) => events.push(event),
                            Err(error) => unreadable.add(&error, &message),
                        }
                    }
                }
                Err(error @ KafkaError::MessageConsumptionFatal(_)) => {
                    return Err(error).context("can't consume");
                }
                Err(error) => trouble.record(&error, ""),
            }
            records += 1;
            next = if records < records_max {
                stream.next().now_or_never().flatten()
            } else {
                None
            };
        }
        drop(stream);
        unreadable.report();
        let decisions = self.inner.context().take_decisions();
        self.drop_offsets(&decisions);
        if events.is_empty() && decisions.is_empty() {
            self.tell_trouble();
        } else {
            self.inner.context().trouble.clear();
        }
        Ok(Delivery { decisions, events })
    }

    /// Commits, at most every second, where to start the next time. Never waits, never fails:
    /// whoever starts from an older offset drops what it has.
    pub fn commit_hint(&mut self) {
        if self.committed_at.elapsed() >= COMMIT_INTERVAL {
            self.commit_hint_now();
        }
    }

    /// Commits what was not committed yet and leaves the group.
    pub async fn leave(mut self) {
        self.commit_hint_now();
        let inner = self.inner;
        // Waits for the brokers, and for the commit above.
        if tokio::task::spawn_blocking(move || drop(inner))
            .await
            .is_err()
        {
            tracing::warn!("leaving the consumer group has panicked");
        }
    }

    fn commit_hint_now(&mut self) {
        let mut offsets = TopicPartitionList::new();
        for shard in Shard::all() {
            let Some(next) = self.next_offsets[shard.index()].take() else {
                continue;
            };
            let (topic, partition) = (self.topic.as_str(), shard.number().into());
            let added = offsets.add_partition_offset(topic, partition, Offset::Offset(next));
            if let Err(error) = added {
                tracing::warn!(%shard, %error, "can't name an offset");
            }
        }
        self.committed_at = Instant::now();
        if offsets.count() == 0 {
            return;
        }
        if let Err(error) = self.inner.commit(&offsets, CommitMode::Async) {
            tracing::warn!(%error, "can't commit offsets");
        }
    }

    /// The client goes on by itself, and the engine without it. Trouble is told of at once, but
    /// what is vaguer than what was told, or the same, only now and then.
    fn tell_trouble(&mut self) {
        let Some((about, error)) = self.inner.context().trouble.most_specific() else {
            return;
        };
        let is_due = self
            .told
            .is_none_or(|(told, at)| about > told || at.elapsed() >= TROUBLE_INTERVAL);
        if is_due {
            self.told = Some((about, Instant::now()));
            tracing::warn!(error, "trouble with Kafka");
        }
    }

    /// Offsets of partitions that are not ours are refused.
    fn drop_offsets(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            match decision {
                Decision::Assigned(_) => {}
                Decision::Revoked(shards) | Decision::Lost(shards) => {
                    for shard in shards {
                        self.next_offsets[shard.index()] = None;
                    }
                }
            }
        }
    }
}
