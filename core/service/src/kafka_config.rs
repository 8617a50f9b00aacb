//! Connection to Kafka: brokers, topic, TLS and SASL, as settings of every process that uses Kafka.
//!
//! Contradictions are reported at the start, one line each. Secrets are read from files; the
//! settings only hold the names of the files.

mod security;

use std::{fmt, str::FromStr};

use anyhow::ensure;
use clap::{Args, ValueEnum};

pub use self::security::{KafkaSecurity, SaslMechanism, SecurityProtocol};
use linkledger_core::cloud_event::CLICKS_TOPIC;
use linkledger_core::cloud_event::TOPIC;

/// Maximal length of a topic name, in characters.
const TOPIC_NAME_LENGTH_MAX: usize = 249;

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

/// A switch: `on` or `off`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// `on`.
    #[default]
    On,
    /// `off`.
    Off,
}

impl fmt::Display for OnOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// Settings of the stream of clicks.
#[derive(Debug, Clone, Args)]
pub struct ClicksConfig {
    /// Name of the topic with the stream of clicks.
    #[arg(long = "kafka-clicks-topic", env = "KAFKA_CLICKS_TOPIC", default_value = CLICKS_TOPIC)]
    pub clicks_topic: TopicName,
    /// Record and count clicks: if `off`, no topic of clicks is needed, and query-api needs no Kafka.
    #[arg(long, env = "CLICKS", default_value_t)]
    pub clicks: OnOff,
}

impl ClicksConfig {
    /// Returns true if clicks are recorded and counted.
    pub fn are_on(&self) -> bool {
        self.clicks == OnOff::On
    }

    /// Returns the settings of the topic of clicks in the cluster of `kafka`; `None` without clicks.
    pub fn kafka(&self, kafka: &KafkaConfig) -> Option<KafkaConfig> {
        self.are_on().then(|| KafkaConfig {
            topic: self.clicks_topic.clone(),
            ..kafka.clone()
        })
    }
}

impl Default for ClicksConfig {
    fn default() -> Self {
        Self {
            clicks_topic: TopicName::of_clicks(),
            clicks: OnOff::On,
        }
    }
}

/// A valid name of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicName(String);

/// Kafka does not allow this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a topic's name has 1 to {TOPIC_NAME_LENGTH_MAX} characters of a-z, A-Z, 0-9, `.`, `_`, `-`, and is neither `.` nor `..`"
)]
pub struct InvalidTopicName;

impl TopicName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the default topic of clicks.
    pub fn of_clicks() -> Self {
        Self(CLICKS_TOPIC.to_owned())
    }
}

impl Default for TopicName {
    /// Returns the topic of the public event stream.
    fn default() -> Self {
        Self(TOPIC.to_owned())
    }
}

impl FromStr for TopicName {
    type Err = InvalidTopicName;

    fn from_str(text: &str) -> Result<Self, InvalidTopicName> {
        let is_valid = (1..=TOPIC_NAME_LENGTH_MAX).contains(&text.len())
            && !matches!(text, "." | "..")
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        is_valid
            .then(|| Self(text.to_owned()))
            .ok_or(InvalidTopicName)
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_named_as_kafka_allows() {
        let (longest, too_long) = ("t".repeat(249), "t".repeat(250));
        for (text, is_valid) in [
            (TOPIC, true),
            ("Events_2-a.b", true),
            ("...", true),
            (longest.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            (".", false),
            ("..", false),
            ("a b", false),
            ("a/b", false),
            ("ä", false),
        ] {
            assert_eq!(text.parse::<TopicName>().is_ok(), is_valid, "{text}");
        }
        assert_eq!(TOPIC.parse(), Ok(TopicName::default()));
        assert_eq!(CLICKS_TOPIC.parse(), Ok(TopicName::of_clicks()));
    }
}
