//! Callbacks of the Kafka client: keep assignment changes and errors until the counting takes them.
//!
//! An assignment is accepted at once, without a partition to fetch: the counting first reads the positions.

use std::{
    collections::BTreeSet,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use linkledger_core::{
    click::{CLICK_PARTITIONS, Counting},
    kafka_errors::{KafkaErrorKind, KafkaErrors},
};
use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::{KafkaError, KafkaResult},
    statistics::Statistics,
    types::RDKafkaRespErr,
};
use tokio::time::Instant;

/// Rights that the Kafka user of the projector needs.
const RIGHTS: &str =
    "Read and Describe on the topic of clicks, and Read on the groups of its countings";
/// Interval at which the same Kafka error is logged again.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// A change of the assignment of partitions by the consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::clicks) enum AssignmentChange {
    /// The partitions are assigned to this process.
    Assigned(Vec<u8>),
    /// The partitions are no longer assigned to this process.
    Revoked(Vec<u8>),
}

/// Receives the callbacks of the Kafka client while the consumer is polled.
pub(in crate::clicks) struct GroupContext {
    counting: Counting,
    state: Mutex<GroupState>,
    /// Errors of the Kafka client.
    pub(super) errors: KafkaErrors,
}

#[derive(Default)]
struct GroupState {
    assignment_changes: Vec<AssignmentChange>,
    /// Partitions that the client fetches.
    fetched: BTreeSet<u8>,
    /// Kind and time of the last warning.
    last_warning: Option<(KafkaErrorKind, Instant)>,
}

impl GroupContext {
    pub(super) fn new(counting: Counting) -> Self {
        Self {
            counting,
            state: Mutex::default(),
            errors: KafkaErrors::new(RIGHTS),
        }
    }

    /// Returns and removes the changes since the previous call.
    pub(super) fn take_assignment_changes(&self) -> Vec<AssignmentChange> {
        mem::take(&mut self.state().assignment_changes)
    }

    /// Records if a partition is fetched. Returns true if that is a change.
    pub(super) fn set_fetched(&self, partition: u8, is_fetched: bool) -> bool {
        let mut state = self.state();
        if is_fetched {
            state.fetched.insert(partition)
        } else {
            state.fetched.remove(&partition)
        }
    }

    /// Logs the most specific Kafka error: a more specific one than before at once, any other one once per
    /// [`WARNING_INTERVAL`].
    pub(super) fn warn_of_errors(&self) {
        let Some((kind, error)) = self.errors.most_specific() else {
            return;
        };
        let mut state = self.state();
        let is_due = state
            .last_warning
            .is_none_or(|(last, at)| kind > last || at.elapsed() >= WARNING_INTERVAL);
        if is_due {
            state.last_warning = Some((kind, Instant::now()));
            drop(state);
            let counting = self.counting.name();
            tracing::warn!(
                error,
                counting,
                "trouble with Kafka: clicks are not counted"
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a change, and returns the revoked partitions that were fetched.
    fn record(&self, change: AssignmentChange) -> BTreeSet<u8> {
        tracing::info!(
            counting = self.counting.name(),
            ?change,
            "the consumer group of clicks was rebalanced"
        );
        let mut state = self.state();
        let mut fetched = BTreeSet::new();
        if let AssignmentChange::Revoked(partitions) = &change {
            for partition in partitions {
                if state.fetched.remove(partition) {
                    fetched.insert(*partition);
                }
            }
        }
        state.assignment_changes.push(change);
        fetched
    }
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.errors.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        self.errors.stats(statistics);
    }
}

impl ConsumerContext for GroupContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        event: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let partitions = partitions_of(list);
        let accepted: KafkaResult<()> =
            if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
                self.record(AssignmentChange::Assigned(partitions));
                consumer.incremental_assign(&TopicPartitionList::new())
            } else {
                let fetched = self.record(AssignmentChange::Revoked(partitions));
                let mut ended = TopicPartitionList::new();
                for element in list.elements() {
                    if u8::try_from(element.partition()).is_ok_and(|it| fetched.contains(&it)) {
                        ended.add_partition(element.topic(), element.partition());
                    }
                }
                consumer.incremental_unassign(&ended)
            };
        if let Err(error) = accepted {
            tracing::warn!(%error, "cannot accept a rebalance of clicks; the Kafka client retries");
        }
    }
}

fn partitions_of(list: &TopicPartitionList) -> Vec<u8> {
    let partitions = list.elements();
    let partitions = partitions
        .iter()
        .filter_map(|element| u8::try_from(element.partition()).ok());
    partitions.filter(|it| *it < CLICK_PARTITIONS).collect()
}
