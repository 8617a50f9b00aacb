//! The Kafka broker of the stack: an embedded broker inside the process, an Apache Kafka that the
//! stack starts, or brokers that the user names.
//!
//! The embedded broker keeps a few MiB per partition in memory, drops the oldest records, and loses
//! all records at the end of the process. Apache Kafka keeps all records in the data folder.

mod contents;
pub(super) mod fixed_port;

use std::time::Duration;

use anyhow::Context as _;
use linkledger_clicks::CLICK_PARTITIONS;
use linkledger_command_api::admin::topic::{self, WantedTopics};
use linkledger_core::shard::SHARD_COUNT;
use linkledger_servers::apache_kafka::{ApacheKafka, ApacheKafkaOptions};
use linkledger_service::kafka_config::{ClicksConfig, KafkaConfig, TopicName};
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use tokio::{sync::Mutex, time::Instant};

use self::contents::LastEvent;
use super::{database::StackDatabase, services::RelaySettings};
use crate::{
    data_folder::DataFolder,
    options::{BrokerKind, StackOptions},
};

/// Folder of Apache Kafka in the data folder.
const APACHE_DIR: &str = "kafka";

/// Longest wait for the leaders of the partitions, which are elected after the broker answers.
const LEADERS_TIMEOUT: Duration = Duration::from_secs(15);
const LEADERS_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A running broker, or the address of brokers that the user runs.
pub(super) struct StackBroker {
    kind: BrokerHandle,
    addresses: String,
}

enum BrokerHandle {
    Embedded(#[expect(dead_code, reason = "lives as long as this value")] EmbeddedCluster),
    Apache(Box<Mutex<ApacheKafka>>),
    External,
}

type EmbeddedCluster = MockCluster<'static, DefaultProducerContext>;

impl StackBroker {
    /// Starts the broker that the options name, unless the user has brokers.
    pub(super) async fn start(options: &StackOptions, folder: &DataFolder) -> anyhow::Result<Self> {
        if let Some(addresses) = &options.kafka_brokers {
            return Ok(Self {
                kind: BrokerHandle::External,
                addresses: addresses.clone(),
            });
        }
        match options.kafka {
            BrokerKind::Embedded => {
                Self::embedded(&options.kafka_topic, &options.kafka_clicks_topic)
            }
            BrokerKind::Apache => Self::apache(folder).await,
        }
    }

    fn embedded(topic: &TopicName, clicks_topic: &TopicName) -> anyhow::Result<Self> {
        let cluster = MockCluster::new(1).context("can't start the Kafka broker")?;
        for (topic, partitions) in [(topic, SHARD_COUNT), (clicks_topic, CLICK_PARTITIONS)] {
            cluster
                .create_topic(topic.as_str(), i32::from(partitions), 1)
                .with_context(|| format!("can't create the topic {topic}"))?;
        }
        Ok(Self {
            addresses: cluster.bootstrap_servers(),
            kind: BrokerHandle::Embedded(cluster),
        })
    }

    async fn apache(folder: &DataFolder) -> anyhow::Result<Self> {
        let options = ApacheKafkaOptions {
            data_dir: Some(folder.path(APACHE_DIR)),
            ..ApacheKafkaOptions::default()
        };
        let kafka = ApacheKafka::start(options).await?;
        Ok(Self {
            addresses: kafka.bootstrap_servers(),
            kind: BrokerHandle::Apache(Box::new(Mutex::new(kafka))),
        })
    }

    /// Returns the addresses for clients: host:port, separated by commas.
    pub(super) fn addresses(&self) -> &str {
        &self.addresses
    }

    /// Returns the settings of the relay for this broker.
    pub(super) fn relay(&self) -> RelaySettings {
        match self.kind {
            BrokerHandle::Embedded(_) => RelaySettings::EMBEDDED,
            BrokerHandle::Apache(_) | BrokerHandle::External => RelaySettings::KAFKA,
        }
    }

    /// Returns the longest wait of the projector's fetch requests, in milliseconds.
    pub(super) fn fetch_wait_max_ms(&self) -> u16 {
        match self.kind {
            // The embedded broker does not end a waiting fetch when an event arrives.
            BrokerHandle::Embedded(_) => 2,
            BrokerHandle::Apache(_) | BrokerHandle::External => 10,
        }
    }

    /// Ensures that no event is missing in the topic of the stack's own broker, whichever broker was used
    /// before. Leaves the brokers that the user names as they are. Must run before the relay starts.
    pub(super) async fn prepare(
        &self,
        kafka: &KafkaConfig,
        clicks: &ClicksConfig,
        database: &StackDatabase,
    ) -> anyhow::Result<()> {
        match self.kind {
            BrokerHandle::Embedded(_) => database.republish_empty_broker().await,
            BrokerHandle::Apache(_) => {
                let wanted = WantedTopics {
                    kafka: kafka.clone(),
                    clicks: clicks.clone(),
                    // 0 means: never delete records.
                    retention_days: 0,
                    clicks_retention_days: 0,
                    replication_factor: None,
                    min_insync_replicas: None,
                    json: false,
                };
                let last_events = last_events(&wanted).await?;
                let published = contents::published(last_events, kafka, &database.pool).await?;
                database.rewind_relay(&published).await
            }
            // Other processes may run a relay to these brokers: an operator decides whether to publish
            // again, with `command-api relay republish`.
            BrokerHandle::External => Ok(()),
        }
    }

    /// Resolves if Apache Kafka, started by the stack, ends without a request to stop.
    pub(super) async fn died(&self) -> anyhow::Error {
        match &self.kind {
            BrokerHandle::Apache(kafka) => kafka.lock().await.died().await,
            BrokerHandle::Embedded(_) | BrokerHandle::External => std::future::pending().await,
        }
    }

    /// Stops the stack's own broker.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self.kind {
            BrokerHandle::Apache(kafka) => kafka.into_inner().stop().await,
            BrokerHandle::Embedded(_) | BrokerHandle::External => Ok(()),
        }
    }
}

/// Creates the topics that are missing, and reads the last event of each partition.
async fn last_events(wanted: &WantedTopics) -> anyhow::Result<Vec<LastEvent>> {
    let deadline = Instant::now() + LEADERS_TIMEOUT;
    loop {
        let attempt = async {
            topic::create(wanted).await?;
            contents::last_events(&wanted.kafka).await
        };
        match attempt.await {
            Ok(last_events) => return Ok(last_events),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => tokio::time::sleep(LEADERS_POLL_INTERVAL).await,
        }
    }
}
