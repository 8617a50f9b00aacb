//! How Kafka is reached: brokers, topic, TLS and SASL, as settings of every process that uses it.
//!
//! Contradictions are told at the start, one line each. Secrets come from files; kept here are
//! only the names of the files.

mod security;
mod topic_name;

use anyhow::ensure;
use clap::Args;

pub use self::{
    security::{KafkaSecurity, SaslMechanism, SecurityProtocol},
    topic_name::{InvalidTopicName, TopicName},
};
use crate::cloud_event::TOPIC;

/// Which Kafka, which topic, and how to get in.
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
    /// The topic of the contract on brokers that ask for nothing.
    pub fn plaintext(brokers: String) -> Self {
        Self {
            brokers,
            topic: TopicName::default(),
            security: KafkaSecurity::default(),
        }
    }

    /// The variables by which another process is told the same.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("KAFKA_BROKERS", self.brokers.clone()),
            ("KAFKA_TOPIC", self.topic.to_string()),
        ];
        variables.extend(self.security.environment());
        variables
    }

    /// What a client of librdkafka has to be told to get in, secrets included: not for logs.
    ///
    /// # Errors
    /// When settings contradict each other, a file can't be used, or this build has no TLS.
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
