//! What the consumer group tells its member, kept until the member asks for it.

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
};

/// What our user must be allowed.
const RIGHTS: &str = "Read and Describe on the topic, and Read on the group";

/// What the consumer group has decided about some shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// They are ours.
    Assigned(Vec<Shard>),
    /// They are not ours any more.
    Revoked(Vec<Shard>),
    /// The group has not heard of us for too long; whose they are is not known.
    Lost(Vec<Shard>),
}

/// Hears of the decisions while the consumer is polled.
pub(super) struct GroupContext {
    decisions: Mutex<Vec<Decision>>,
    /// What the consumer complains of.
    pub(super) trouble: KafkaErrors,
}

impl GroupContext {
    pub(super) fn new() -> Self {
        Self {
            decisions: Mutex::default(),
            trouble: KafkaErrors::new(RIGHTS),
        }
    }

    /// The decisions since the last time.
    pub(super) fn take_decisions(&self) -> Vec<Decision> {
        mem::take(
            &mut *self
                .decisions
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.trouble.log(level, facility, message);
    }

    /// The same comes to the consumer as an error, without the reason.
    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.error(error, reason);
    }
}

impl ConsumerContext for GroupContext {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let decision = match rebalance {
            Rebalance::Assign(partitions) => Decision::Assigned(shards_of(partitions)),
            Rebalance::Revoke(partitions) if consumer.assignment_lost() => {
                Decision::Lost(shards_of(partitions))
            }
            Rebalance::Revoke(partitions) => Decision::Revoked(shards_of(partitions)),
            Rebalance::Error(error) => {
                tracing::warn!(%error, "the consumer group can't be rebalanced");
                return;
            }
        };
        tracing::info!(?decision, "the consumer group was rebalanced");
        self.decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(decision);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::warn!(%error, "offsets were not committed");
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
