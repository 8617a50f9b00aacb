//! Callbacks of the Kafka client: keep assignment changes and errors until the consumer takes them.

use std::{
    mem,
    sync::{Mutex, PoisonError},
};

use linkledger_core::{kafka_errors::KafkaErrors, shard::Shard};
use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance},
    error::{KafkaError, KafkaResult},
    statistics::Statistics,
};

/// Rights that the Kafka user of the projector needs.
const RIGHTS: &str = "Read and Describe on the topic, and Read on the group";

/// A change of the assignment of shards by the consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignmentChange {
    /// The shards are assigned to this process.
    Assigned(Vec<Shard>),
    /// The shards are no longer assigned to this process.
    Revoked(Vec<Shard>),
    /// The group has expelled this process after a timeout, or the client was replaced. The new owner of the
    /// shards is unknown; some of them may not have been assigned.
    Lost(Vec<Shard>),
}

/// Receives the callbacks of the Kafka client while the consumer is polled.
pub(super) struct GroupContext {
    assignment_changes: Mutex<Vec<AssignmentChange>>,
    /// Errors of the Kafka client.
    pub(super) errors: KafkaErrors,
}

impl GroupContext {
    pub(super) fn new() -> Self {
        Self {
            assignment_changes: Mutex::default(),
            errors: KafkaErrors::new(RIGHTS),
        }
    }

    /// Returns and removes the changes since the previous call.
    pub(super) fn take_assignment_changes(&self) -> Vec<AssignmentChange> {
        mem::take(
            &mut *self
                .assignment_changes
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.errors.log(level, facility, message);
    }

    /// Records an error together with its reason. The consumer receives the same error without
    /// the reason.
    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        self.errors.stats(statistics);
    }
}

impl ConsumerContext for GroupContext {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let change = match rebalance {
            Rebalance::Assign(partitions) => AssignmentChange::Assigned(shards_of(partitions)),
            Rebalance::Revoke(partitions) if consumer.assignment_lost() => {
                AssignmentChange::Lost(shards_of(partitions))
            }
            Rebalance::Revoke(partitions) => AssignmentChange::Revoked(shards_of(partitions)),
            Rebalance::Error(error) => {
                tracing::warn!(
                    %error,
                    "the rebalance of the consumer group failed; the Kafka client retries"
                );
                return;
            }
        };
        tracing::info!(?change, "the consumer group was rebalanced");
        self.assignment_changes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(change);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::warn!(
                %error,
                "cannot commit offsets to Kafka; after a restart, records are delivered again and skipped"
            );
        }
    }
}

fn shards_of(partitions: &TopicPartitionList) -> Vec<Shard> {
    let partitions = partitions.elements();
    let shards = partitions
        .iter()
        .filter_map(|it| Shard::new(it.partition().into()));
    shards.collect()
}
