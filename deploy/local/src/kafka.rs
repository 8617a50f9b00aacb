//! The broker of the local stack: librdkafka's own, inside the process. It keeps a few MiB per
//! partition in memory, drops the oldest, and forgets everything at the end of the process.

use anyhow::Context as _;
use linkledger_core::{kafka_config::TopicName, shard::SHARD_COUNT};
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};

/// A broker that lives as long as this value.
pub(crate) struct EmbeddedBroker(MockCluster<'static, DefaultProducerContext>);

impl EmbeddedBroker {
    /// Starts a broker with the topic of the event stream.
    pub(crate) fn start(topic: &TopicName) -> anyhow::Result<Self> {
        let cluster = MockCluster::new(1).context("can't start the Kafka broker")?;
        cluster
            .create_topic(topic.as_str(), i32::from(SHARD_COUNT), 1)
            .context("can't create the topic")?;
        Ok(Self(cluster))
    }

    /// Where clients reach it.
    pub(crate) fn brokers(&self) -> String {
        self.0.bootstrap_servers()
    }
}
