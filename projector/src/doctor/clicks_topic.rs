//! Check of the topic of clicks.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_clicks::CLICK_PARTITIONS;
use linkledger_service::{
    doctor::{Finding, Severity},
    kafka_errors::KafkaErrors,
};
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
};

use crate::config::Config;

const CHECK: &str = "topic of clicks";
/// Timeout for the answer of the cluster.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Checks that the topic exists and has its partitions.
pub(super) async fn examine(config: &Config) -> Finding {
    match partitions(config).await {
        Ok(partitions) => judge(config.clicks.clicks_topic.as_str(), partitions),
        Err(error) => {
            let remedy =
                "start the broker, or correct the settings of Kafka; without clicks: --clicks off";
            let is = format!("cannot be read: {error:#}");
            Finding::new(CHECK, Severity::Warning, is, remedy)
        }
    }
}

fn judge(topic: &str, partitions: usize) -> Finding {
    match partitions {
        0 => Finding::new(
            CHECK,
            Severity::Warning,
            format!("`{topic}` does not exist"),
            format!("create it with {CLICK_PARTITIONS} partitions; or set --clicks off"),
        ),
        right if right == usize::from(CLICK_PARTITIONS) => {
            Finding::ok(CHECK, format!("`{topic}` has {right} partitions"))
        }
        wrong => Finding::error(
            CHECK,
            format!("`{topic}` has {wrong} partitions"),
            format!(
                "create a topic with {CLICK_PARTITIONS} partitions, and set --kafka-clicks-topic"
            ),
        ),
    }
}

/// Returns the number of the topic's partitions; 0 without a topic.
async fn partitions(config: &Config) -> anyhow::Result<usize> {
    let errors = KafkaErrors::new("Describe on the topic of clicks");
    let mut client: ClientConfig = config.kafka.client_settings()?.collect();
    client.set("allow.auto.create.topics", "false");
    let topic = config.clicks.clicks_topic.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = client.create().context("cannot make a Kafka client")?;
        let metadata = consumer.fetch_metadata(Some(topic.as_str()), ANSWER_TIME_MAX)?;
        let topics = metadata.topics().iter();
        let found = topics.filter(|it| it.name() == topic.as_str() && it.error().is_none());
        Ok(found.map(|it| it.partitions().len()).sum())
    });
    let asked = asked.await.context("a request to Kafka panicked")?;
    asked.map_err(|error| errors.explain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sixteen_partitions_are_right() {
        assert_eq!(judge("t", 16).verdict, Severity::Ok);
        assert_eq!(judge("t", 0).verdict, Severity::Warning);
        assert_eq!(judge("t", 15).verdict, Severity::Error);
    }
}
