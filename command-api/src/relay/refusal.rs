//! Why the relay publishes nothing although database and broker answer: each reason says what is
//! wrong and what mends it. It is looked for again until it is gone.

use linkledger_core::shard::{SHARD_COUNT, Shard};

use super::topic::MAX_MESSAGE_BYTES_MIN;

/// What an operator has to mend before anything is published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Topics are created by operators, never by use.
    #[error(
        "the topic {topic} does not exist; create it: `command-api topic create --kafka-topic {topic}`"
    )]
    NoTopic {
        /// Its name.
        topic: String,
    },
    /// Shard and partition are the same number: any other count breaks the order.
    #[error(
        "the topic {topic} has {partitions} partitions instead of {SHARD_COUNT}; delete it, then: \
         `command-api topic create`, `command-api relay refill --from 0`"
    )]
    PartitionCount {
        /// Its name.
        topic: String,
        /// How many there are.
        partitions: usize,
    },
    /// Compaction keeps one event of each account.
    #[error(
        "the topic {topic} has cleanup.policy={policy}: compaction removes events; set \
         cleanup.policy=delete (`command-api topic check` shows how)"
    )]
    Compacted {
        /// Its name.
        topic: String,
        /// As it is set.
        policy: String,
    },
    /// The broker would refuse a full batch for ever.
    #[error(
        "the topic {topic} takes batches of {bytes} bytes, the relay sends up to \
         {MAX_MESSAGE_BYTES_MIN}; set max.message.bytes={MAX_MESSAGE_BYTES_MIN} \
         (`command-api topic check` shows how)"
    )]
    BatchesTooLarge {
        /// Its name.
        topic: String,
        /// What it takes.
        bytes: u64,
    },
    /// The records that the cursor stands for are in another cluster.
    #[error(
        "what was published lies in the Kafka cluster {bound}, and this is {present}; go back to \
         that cluster, or publish the log to this one: `command-api relay refill --from 0`"
    )]
    OtherCluster {
        /// Where the cursors stand.
        bound: String,
        /// Where the brokers are that were asked.
        present: String,
    },
    /// The topic was deleted and created again, or has lost its end.
    #[error(
        "the last record of shard {shard} was at offset {offset}, and the topic {topic} ends at \
         {high}: it was created anew, or has lost records; publish the log again into an empty \
         topic: `command-api relay refill --from 0`"
    )]
    RecordsGone {
        /// Its name.
        topic: String,
        /// Of which shard.
        shard: Shard,
        /// Where the last record was.
        offset: i64,
        /// The offset that the next record would get.
        high: i64,
    },
    /// A record got a lower offset than one before it.
    #[error(
        "the topic began again while it was published to (partition {shard}): it was created anew; \
         publish the log again into an empty topic: `command-api relay refill --from 0`"
    )]
    BeganAgain {
        /// Where it was noticed.
        shard: Shard,
    },
    /// Whether the log still has what was published after the cursor can't be known.
    #[error(
        "the topic {topic} has records behind the cursors, as after a crash or a restore, and the \
         relay's user may not read them: grant it Read on the topic (docs/kafka.md, \"TLS, SASL \
         and rights\")"
    )]
    Unreadable {
        /// Its name.
        topic: String,
    },
    /// The log ended before what has been published.
    #[error(
        "the log of shard {shard} has lost events of epoch {epoch} that were published: a restore, \
         or a failover to a standby that lagged; their sequences go to other events, which \
         consumers drop. Give the log another epoch: `command-api log epoch raise --reason …` \
         (docs/operations.md, \"The log was restored\")"
    )]
    EventsLost {
        /// Of which shard.
        shard: Shard,
        /// The epoch of the log.
        epoch: i32,
    },
    /// The epoch of the log was raised, and nothing of the new one is published.
    #[error(
        "the log is of epoch {log_epoch}, and what was published of shard {shard} is of epoch \
         {epoch}; publish the log again into an empty topic: `command-api relay refill --from 0`"
    )]
    OtherEpoch {
        /// Of which shard.
        shard: Shard,
        /// The epoch of its cursor.
        epoch: i32,
        /// The epoch of the log.
        log_epoch: i32,
    },
}

impl Refusal {
    /// One word for metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoTopic { .. } => "no_topic",
            Self::PartitionCount { .. } => "partition_count",
            Self::Compacted { .. } => "compacted",
            Self::BatchesTooLarge { .. } => "batches_too_large",
            Self::OtherCluster { .. } => "other_cluster",
            Self::RecordsGone { .. } => "records_gone",
            Self::BeganAgain { .. } => "began_again",
            Self::Unreadable { .. } => "topic_unreadable",
            Self::EventsLost { .. } => "events_lost",
            Self::OtherEpoch { .. } => "other_epoch",
        }
    }
}
