//! The topic of clicks as a setting.

use clap::Args;

use super::{KafkaConfig, TopicName};
use crate::click::CLICKS_TOPIC;

/// Settings of the stream of clicks.
#[derive(Debug, Clone, Args)]
pub struct ClicksConfig {
    /// Name of the topic with the stream of clicks.
    #[arg(long = "kafka-clicks-topic", env = "KAFKA_CLICKS_TOPIC", default_value = CLICKS_TOPIC)]
    pub clicks_topic: TopicName,
    /// Leave clicks out: nothing is recorded or counted, and no topic of clicks is needed; query-api then needs no
    /// Kafka.
    #[arg(long = "no-clicks", env = "NO_CLICKS")]
    pub no_clicks: bool,
}

impl ClicksConfig {
    /// Returns the settings of the topic of clicks in the cluster of `kafka`; `None` without clicks.
    pub fn kafka(&self, kafka: &KafkaConfig) -> Option<KafkaConfig> {
        (!self.no_clicks).then(|| KafkaConfig {
            topic: self.clicks_topic.clone(),
            ..kafka.clone()
        })
    }
}

impl Default for ClicksConfig {
    fn default() -> Self {
        Self {
            clicks_topic: TopicName::of_clicks(),
            no_clicks: false,
        }
    }
}
