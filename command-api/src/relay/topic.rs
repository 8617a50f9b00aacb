//! Description of a Kafka topic, and the reasons not to publish events to a topic.

pub mod check_settings;
mod requests;
pub mod tail;

use std::collections::HashMap;

use linkledger_core::cloud_event::CLICK_PARTITIONS;
use linkledger_core::{cloud_event::RECORD_BYTES_MAX, shard::SHARD_COUNT};

use super::refusal::RelayRefusal;

pub(super) use requests::RIGHTS;
pub use requests::{admit, create, describe};

/// Size limit of a batch of the producer, before compression (`batch.size` and
/// `message.max.bytes` of librdkafka).
pub const BATCH_BYTES_MAX: u32 = 940_000;
/// Lowest accepted `max.message.bytes`: a full batch, and one record by which librdkafka may exceed
/// the limit.
pub const MAX_MESSAGE_BYTES_MIN: u32 = 1_048_576;
const _: () = assert!(BATCH_BYTES_MAX + RECORD_BYTES_MAX <= MAX_MESSAGE_BYTES_MIN);

/// Limits of a topic on the difference between the clock of the broker and the time of a record. Records have
/// the time of their event, which is old in a republish, and ahead if a clock was ahead: a limit that refuses one
/// of them stops its shard. Kafka 4 refuses more than an hour ahead by default.
pub const TIMESTAMP_LIMITS: [&str; 2] = [
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
];
/// Value of [`TIMESTAMP_LIMITS`] without a limit.
pub const TIMESTAMP_UNLIMITED: &str = "9223372036854775807";

/// Number of partitions of both topics.
const PARTITIONS: u8 = SHARD_COUNT;
const _: () = assert!(CLICK_PARTITIONS == PARTITIONS);

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Stream of linkledger on a topic of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Events of the log, published by the relay.
    Events,
    /// Clicks, published by query-api.
    Clicks,
}

/// Description of a cluster and of a topic.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Number of brokers.
    pub brokers: usize,
    /// Topic, if the topic exists.
    pub topic: Option<Topic>,
}

/// Description of an existing topic.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Name of the topic.
    pub name: String,
    /// Unique id of the cluster; very old brokers have none.
    pub cluster_id: Option<String>,
    /// By partition: number of replicas.
    pub replicas: Vec<usize>,
    /// Settings of the topic, if the broker reports them.
    pub settings: TopicSettings,
    /// By partition; empty unless the topic has the right number of partitions.
    pub watermarks: Vec<Watermarks>,
}

/// First and next offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Offset of the oldest kept record; retention raises the offset.
    pub low: i64,
    /// Offset of the next record.
    pub high: i64,
}

impl Watermarks {
    /// Returns true if the partition has no records.
    pub fn is_empty(&self) -> bool {
        self.low == self.high
    }
}

/// Settings of a topic, or the reason why they are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicSettings {
    /// Settings by name.
    Known(HashMap<String, String>),
    /// The broker does not support the request, as the embedded broker.
    Unsupported,
    /// The Kafka user has not the right to read the settings.
    Denied,
}

impl Topic {
    /// Returns true if the topic has no records.
    pub fn is_empty(&self) -> bool {
        self.watermarks.iter().all(Watermarks::is_empty)
    }

    /// Returns the value of a setting, if the value is known.
    pub fn setting(&self, name: &str) -> Option<&str> {
        match &self.settings {
            TopicSettings::Known(settings) => settings.get(name).map(String::as_str),
            TopicSettings::Unsupported | TopicSettings::Denied => None,
        }
    }

    /// Returns the number of days after which Kafka removes events, if Kafka removes events.
    pub fn retention_days(&self) -> Option<i64> {
        let milliseconds: i64 = self.setting("retention.ms")?.parse().ok()?;
        (milliseconds >= 0).then_some(milliseconds / DAY_MS)
    }

    /// Returns the refusal, if events must not be published to the topic.
    pub fn refusal(&self) -> Option<RelayRefusal> {
        let (topic, partitions) = (&self.name, self.replicas.len());
        if partitions != usize::from(SHARD_COUNT) {
            let text = format!(
                "the topic {topic} has {partitions} partitions instead of {SHARD_COUNT}; delete it, then: \
                 `command-api topic create`, `command-api relay republish --from 0`"
            );
            return Some(RelayRefusal::new("partition_count", text));
        }
        if let Some(policy) = self.setting("cleanup.policy")
            && policy.contains("compact")
        {
            // Compaction would keep only one event of each account.
            let text = format!(
                "the topic {topic} has cleanup.policy={policy}: compaction removes events; set \
                 cleanup.policy=delete (`command-api topic check` shows how)"
            );
            return Some(RelayRefusal::new("compacted", text));
        }
        let bytes: u64 = self.setting("max.message.bytes")?.parse().ok()?;
        (bytes < u64::from(MAX_MESSAGE_BYTES_MIN)).then(|| {
            let text = format!(
                "the topic {topic} takes batches of {bytes} bytes, the relay sends up to \
                 {MAX_MESSAGE_BYTES_MIN}; set max.message.bytes={MAX_MESSAGE_BYTES_MIN} \
                 (`command-api topic check` shows how)"
            );
            RelayRefusal::new("batches_too_large", text)
        })
    }
}
