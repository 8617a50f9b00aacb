//! Reasons for which the relay publishes nothing although database and broker answer. Each message
//! names the cause and the remedy. The relay checks again until the cause is gone.

use linkledger_core::shard::{SHARD_COUNT, Shard};

use super::topic::MAX_MESSAGE_BYTES_MIN;

/// Reason why the relay publishes nothing until an operator acts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayRefusal {
    /// The topic does not exist: operators create topics, the relay never does.
    #[error(
        "the topic {topic} does not exist; create it: `command-api topic create --kafka-topic {topic}`"
    )]
    NoTopic {
        /// Name of the topic.
        topic: String,
    },
    /// The topic has not one partition for each shard, which would break the order.
    #[error(
        "the topic {topic} has {partitions} partitions instead of {SHARD_COUNT}; delete it, then: \
         `command-api topic create`, `command-api relay refill --from 0`"
    )]
    PartitionCount {
        /// Name of the topic.
        topic: String,
        /// Number of partitions.
        partitions: usize,
    },
    /// The topic is compacted, and compaction would keep only one event of each account.
    #[error(
        "the topic {topic} has cleanup.policy={policy}: compaction removes events; set \
         cleanup.policy=delete (`command-api topic check` shows how)"
    )]
    Compacted {
        /// Name of the topic.
        topic: String,
        /// Value of `cleanup.policy`.
        policy: String,
    },
    /// The topic takes only smaller batches than the relay sends.
    #[error(
        "the topic {topic} takes batches of {bytes} bytes, the relay sends up to \
         {MAX_MESSAGE_BYTES_MIN}; set max.message.bytes={MAX_MESSAGE_BYTES_MIN} \
         (`command-api topic check` shows how)"
    )]
    BatchesTooLarge {
        /// Name of the topic.
        topic: String,
        /// Value of `max.message.bytes`.
        bytes: u64,
    },
    /// The records up to the cursors are in another cluster.
    #[error(
        "what was published lies in the Kafka cluster {bound}, and this is {present}; go back to \
         that cluster, or publish the log to this one: `command-api relay refill --from 0`"
    )]
    OtherCluster {
        /// Id of the cluster that has the records.
        bound: String,
        /// Id of the configured cluster.
        present: String,
    },
    /// The topic was deleted and created again, or has lost its last records.
    #[error(
        "the last record of shard {shard} was at offset {offset}, and the topic {topic} ends at \
         {high}: it was created anew, or has lost records; publish the log again into an empty \
         topic: `command-api relay refill --from 0`"
    )]
    RecordsGone {
        /// Name of the topic.
        topic: String,
        /// Shard of the lost records.
        shard: Shard,
        /// Offset of the last known record.
        offset: i64,
        /// Offset of the next record.
        high: i64,
    },
    /// A record got a lower offset than an earlier record.
    #[error(
        "the topic began again while it was published to (partition {shard}): it was created anew; \
         publish the log again into an empty topic: `command-api relay refill --from 0`"
    )]
    BeganAgain {
        /// Shard of the record.
        shard: Shard,
    },
    /// Nothing of this log was published to the topic, and it has records.
    #[error(
        "the topic {topic} has records, and none of them is of this log: it is the topic of another log, or \
         somebody else has written to it; give this log a topic of its own (--kafka-topic), or delete the topic, \
         then: `command-api topic create`"
    )]
    OtherLog {
        /// Name of the topic.
        topic: String,
    },
    /// The relay may not read the records after the cursors, so it cannot compare them with the log.
    #[error(
        "the topic {topic} has records after the cursors, as after a crash or a restore, and the \
         relay's user may not read them: grant it Read on the topic (docs/kafka.md, \"TLS, SASL \
         and rights\")"
    )]
    Unreadable {
        /// Name of the topic.
        topic: String,
    },
    /// The log lacks published events.
    #[error(
        "the log of shard {shard} has lost events of epoch {epoch} that were published: a restore, \
         or a failover to a standby that lagged; later events get the sequences of the \
         lost events, and consumers would drop them as duplicates. Give the log another epoch: `command-api log epoch raise --reason …` \
         (docs/operations.md, \"The log was restored\")"
    )]
    EventsLost {
        /// Shard of the lost events.
        shard: Shard,
        /// Epoch of the lost events.
        epoch: i32,
    },
    /// The epoch of the log was raised, and the log was not published again since.
    #[error(
        "the log is of epoch {log_epoch}, and what was published of shard {shard} is of epoch \
         {epoch}; publish the log again into an empty topic: `command-api relay refill --from 0`"
    )]
    OtherEpoch {
        /// Shard of the cursor.
        shard: Shard,
        /// Epoch of the cursor.
        epoch: i32,
        /// Epoch of the log.
        log_epoch: i32,
    },
}

impl RelayRefusal {
    /// Returns the value of the metric's label `reason`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoTopic { .. } => "no_topic",
            Self::PartitionCount { .. } => "partition_count",
            Self::Compacted { .. } => "compacted",
            Self::BatchesTooLarge { .. } => "batches_too_large",
            Self::OtherCluster { .. } => "other_cluster",
            Self::RecordsGone { .. } => "records_gone",
            Self::BeganAgain { .. } => "began_again",
            Self::OtherLog { .. } => "other_log",
            Self::Unreadable { .. } => "topic_unreadable",
            Self::EventsLost { .. } => "events_lost",
            Self::OtherEpoch { .. } => "other_epoch",
        }
    }
}
