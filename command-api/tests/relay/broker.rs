//! Broker of one test, which the test can stop and start again: the embedded broker, or an Apache
//! Kafka if the tests use Apache Kafka.

use linkledger_core::{cloud_event::TOPIC, shard::SHARD_COUNT};
use linkledger_servers::apache_kafka::{ApacheKafka, ApacheKafkaOptions};
use linkledger_service::kafka_config::KafkaConfig;
use linkledger_testing::{TestBroker, until_known};
use rdkafka::{
    ClientConfig,
    admin::{
        AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
    },
    client::DefaultClientContext,
};

pub(crate) enum Broker {
    Embedded(TestBroker),
    Apache(ApacheKafka),
}

impl Broker {
    pub(crate) async fn start() -> Self {
        if TestBroker::is_apache() {
            Self::Apache(apache(ApacheKafkaOptions::default()).await)
        } else {
            Self::Embedded(TestBroker::embedded())
        }
    }

    pub(crate) fn config(&self) -> KafkaConfig {
        match self {
            Self::Embedded(broker) => broker.config(),
            Self::Apache(kafka) => config(kafka),
        }
    }

    pub(crate) async fn stop(&mut self) {
        match self {
            Self::Embedded(broker) => broker.cluster().broker_down(1).unwrap(),
            Self::Apache(kafka) => kafka.stop().await.unwrap(),
        }
    }

    pub(crate) async fn start_again(&mut self) {
        match self {
            Self::Embedded(broker) => broker.cluster().broker_up(1).unwrap(),
            Self::Apache(kafka) => kafka.restart().await.unwrap(),
        }
    }
}

/// Starts an Apache Kafka and creates the topic.
pub(crate) async fn apache(options: ApacheKafkaOptions) -> ApacheKafka {
    let kafka = ApacheKafka::start(options).await.unwrap();
    let topic = NewTopic::new(TOPIC, i32::from(SHARD_COUNT), TopicReplication::Fixed(1));
    let admin = admin(&kafka);
    let created = admin.create_topics(&[topic], &AdminOptions::new()).await;
    let created = created.unwrap();
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    until_known(&admin, TOPIC, SHARD_COUNT.into()).await;
    kafka
}

pub(crate) fn config(kafka: &ApacheKafka) -> KafkaConfig {
    KafkaConfig::plaintext(kafka.bootstrap_servers())
}

/// Changes a setting of the topic.
pub(crate) async fn alter_topic(kafka: &ApacheKafka, name: &str, value: &str) {
    let topic = AlterConfig::new(ResourceSpecifier::Topic(TOPIC)).set(name, value);
    let altered = admin(kafka)
        .alter_configs(&[topic], &AdminOptions::new())
        .await
        .unwrap();
    assert!(altered.iter().all(Result::is_ok), "{altered:?}");
}

fn admin(kafka: &ApacheKafka) -> AdminClient<DefaultClientContext> {
    let settings = config(kafka).client_settings().unwrap();
    settings.collect::<ClientConfig>().create().unwrap()
}
