//! The broker of the stack: one inside the process, an Apache Kafka of the stack's own, or what the
//! user names.
//!
//! The embedded one keeps a few MiB per partition in memory, drops the oldest, and forgets
//! everything at the end of the process. Apache Kafka keeps the whole history in the data folder.

mod contents;

use std::time::Duration;

use anyhow::Context as _;
use linkledger_command_api::admin::topic::{self, WantedTopic};
use linkledger_core::{
    apache_kafka::{ApacheKafka, ApacheKafkaOptions},
    kafka_config::{KafkaConfig, TopicName},
    shard::SHARD_COUNT,
};
use linkledger_projector::config::GroupProtocol;
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use tokio::{sync::Mutex, time::Instant};

use self::contents::LastEvent;
use super::{database::Database, services::RelaySettings};
use crate::{
    data_folder::DataFolder,
    options::{BrokerKind, StackOptions},
};

/// Folder of Apache Kafka in the data folder.
const APACHE_DIR: &str = "kafka";

/// How long the partitions may take to get their leaders, which they do after the broker answers.
const LEADERS_TIMEOUT: Duration = Duration::from_secs(15);
const LEADERS_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A broker that runs.
pub(super) struct Broker {
    kind: Kind,
    addresses: String,
}

enum Kind {
    Embedded(#[expect(dead_code, reason = "lives as long as this value")] EmbeddedCluster),
    Apache(Box<Mutex<ApacheKafka>>),
    Own,
}

type EmbeddedCluster = MockCluster<'static, DefaultProducerContext>;

impl Broker {
    /// Starts the broker that the options ask for, unless the user has one.
    pub(super) async fn start(options: &StackOptions, folder: &DataFolder) -> anyhow::Result<Self> {
        if let Some(addresses) = &options.kafka_brokers {
            return Ok(Self {
                kind: Kind::Own,
                addresses: addresses.clone(),
            });
        }
        match options.kafka {
            BrokerKind::Embedded => Self::embedded(&options.kafka_topic),
            BrokerKind::Apache => Self::apache(folder).await,
        }
    }

    fn embedded(topic: &TopicName) -> anyhow::Result<Self> {
        let cluster = MockCluster::new(1).context("can't start the Kafka broker")?;
        cluster
            .create_topic(topic.as_str(), i32::from(SHARD_COUNT), 1)
            .context("can't create the topic")?;
        Ok(Self {
            addresses: cluster.bootstrap_servers(),
            kind: Kind::Embedded(cluster),
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
            kind: Kind::Apache(Box::new(Mutex::new(kafka))),
        })
    }

    /// Where clients reach it.
    pub(super) fn addresses(&self) -> &str {
        &self.addresses
    }

    /// How the relay suits it.
    pub(super) fn relay(&self) -> RelaySettings {
        match self.kind {
            Kind::Embedded(_) => RelaySettings::EMBEDDED,
            Kind::Apache(_) | Kind::Own => RelaySettings::KAFKA,
        }
    }

    /// How the projector joins its group.
    pub(super) fn group_protocol(&self) -> GroupProtocol {
        match self.kind {
            // The embedded broker makes a classic group wait for 3 s at each start.
            Kind::Embedded(_) | Kind::Apache(_) => GroupProtocol::Consumer,
            Kind::Own => GroupProtocol::Classic,
        }
    }

    /// How long a fetch of the projector may wait there, in milliseconds.
    pub(super) fn fetch_wait_max_ms(&self) -> u16 {
        match self.kind {
            // The embedded broker does not wake a fetch that waits.
            Kind::Embedded(_) => 2,
            Kind::Apache(_) | Kind::Own => 10,
        }
    }

    /// Sees to it that nothing is left out of the topic, whatever broker was used before. Must run
    /// while no relay does.
    pub(super) async fn prepare(
        &self,
        kafka: &KafkaConfig,
        database: &Database,
    ) -> anyhow::Result<()> {
        match self.kind {
            Kind::Embedded(_) => database.refill_what_is_lacking().await,
            Kind::Apache(_) => {
                let wanted = WantedTopic {
                    kafka: kafka.clone(),
                    // For ever.
                    retention_days: 0,
                    replication_factor: None,
                    min_insync_replicas: None,
                    json: false,
                };
                let last_events = last_events(&wanted).await?;
                let published = contents::published(last_events, kafka, &database.pool).await?;
                database.rewind_relay(&published).await
            }
            // Its relay may have company: `command-api relay` is for that.
            Kind::Own => Ok(()),
        }
    }

    /// Resolves when the stack's own broker ends without having been asked to.
    pub(super) async fn died(&self) -> anyhow::Error {
        match &self.kind {
            Kind::Apache(kafka) => kafka.lock().await.died().await,
            Kind::Embedded(_) | Kind::Own => std::future::pending().await,
        }
    }

    /// Ends the stack's own broker.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self.kind {
            Kind::Apache(kafka) => kafka.into_inner().stop().await,
            Kind::Embedded(_) | Kind::Own => Ok(()),
        }
    }
}

/// Makes the topic where it is missing, and reads the last event of each partition.
async fn last_events(wanted: &WantedTopic) -> anyhow::Result<Vec<LastEvent>> {
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
