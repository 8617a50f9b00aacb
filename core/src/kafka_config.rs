//! Connection to Kafka: brokers, topic, TLS and SASL, as settings of every process that uses Kafka.
//!
//! Contradictions are reported at the start, one line each. Secrets are read from files; the
//! settings only hold the names of the files.

mod clicks;
mod security;
mod topic_name;

use anyhow::ensure;
use clap::Args;

pub use self::{
    clicks::ClicksConfig,
    security::{KafkaSecurity, SaslMechanism, SecurityProtocol},
    topic_name::TopicName,
};
use crate::cloud_event::TOPIC;

/// Settings of the connection to Kafka.
#[derive(Debug, Clone, Args)]
pub struct KafkaConfig {
    /// Addresses of Kafka brokers: host:port, separated by commas.
    #[arg(long = "kafka-brokers", env = "KAFKA_BROKERS")]
    pub brokers: String,
    /// Name of the topic with the event stream.
    #[arg(long = "kafka-topic", env = "KAFKA_TOPIC", default_value = TOPIC)]
    pub topic: TopicName,
    /// Encryption and authentication.
    #[command(flatten)]
    pub security: KafkaSecurity,
}

impl KafkaConfig {
    /// Returns settings for the default topic, without encryption and authentication.
    pub fn plaintext(brokers: String) -> Self {
        Self {
            brokers,
            topic: TopicName::default(),
            security: KafkaSecurity::default(),
        }
    }

    /// Returns the environment variables that give another process the same settings.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("KAFKA_BROKERS", self.brokers.clone()),
            ("KAFKA_TOPIC", self.topic.to_string()),
        ];
        variables.extend(self.security.environment());
        variables
    }

    /// Returns the settings of a librdkafka client. The settings include secrets and must not be
    /// logged.
    ///
    /// # Errors
    /// Returns an error if settings contradict each other, a file cannot be used, or this build has
    /// no TLS.
    pub fn client_settings(
        &self,
    ) -> anyhow::Result<impl Iterator<Item = (String, String)> + use<>> {
        ensure!(
            !self.brokers.trim().is_empty(),
            "--kafka-brokers is empty; give host:port, separated by commas"
        );
        let mut settings = vec![("bootstrap.servers", self.brokers.clone())];
        settings.extend(self.security.client_settings()?);
        Ok(settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)))
    }
}
