//! Where the relay publishes to: Kafka, or whatever a test puts in its place.

use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::log::PerShard,
    kafka_config::{KafkaConfig, TopicName},
    kafka_trouble::KafkaTrouble,
    shard::{Position, SHARD_COUNT},
};
use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, FutureProducer, Producer as _},
};
use tokio::{sync::Mutex, task::spawn_blocking};

use super::delivery::{self, Connection};

/// How long the broker may take to describe the topic, in seconds.
const METADATA_TIMEOUT: Duration = Duration::from_secs(5);

/// What our user must be allowed.
const RIGHTS: &str = "Write, Describe and DescribeConfigs on the topic";

/// What the broker has acknowledged.
#[derive(Debug, Default)]
pub struct Published {
    /// By shard: the highest position below which nothing of the batch is missing.
    pub acknowledged: PerShard<Option<Position>>,
    /// Why the rest is not published.
    pub failure: Option<anyhow::Error>,
    /// Whether each record that was sent was the only one of its shard.
    pub is_alone: bool,
}

impl Published {
    fn failed(failure: anyhow::Error) -> Self {
        Self {
            failure: Some(failure),
            ..Self::default()
        }
    }

    /// With what was published after it.
    pub(super) fn followed_by(&mut self, later: Self) {
        for (acknowledged, later) in self.acknowledged.iter_mut().zip(later.acknowledged) {
            *acknowledged = later.or(*acknowledged);
        }
        self.failure = later.failure;
        self.is_alone = later.is_alone;
    }

    fn missing_of(&self, events: &[PublishedEvent]) -> Vec<PublishedEvent> {
        let is_missing = |it: &&PublishedEvent| {
            Some(it.event.position) > self.acknowledged[it.event.shard.index()]
        };
        events.iter().filter(is_missing).cloned().collect()
    }
}

/// Publishes events in the order given, shard by shard.
#[async_trait]
pub trait EventPublisher: Send + Sync {
    /// Publishes and waits for every acknowledgement, for as long as it takes.
    async fn publish(&self, events: &[PublishedEvent]) -> Published;

    /// What holds it up, if that is known.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Publishes to Kafka with an idempotent producer.
pub struct KafkaPublisher {
    config: ClientConfig,
    topic: TopicName,
    /// Made when first needed, and made anew after a failure: what the old one still held is
    /// thrown away with it and is read from the log again.
    connection: Mutex<Option<Connection>>,
    trouble: KafkaTrouble,
}

impl KafkaPublisher {
    /// A publisher to that cluster and topic; connects when first used.
    ///
    /// # Errors
    /// When the settings can't be used.
    pub fn new(kafka: &KafkaConfig, compression: &str) -> anyhow::Result<Self> {
        let mut config: ClientConfig = kafka.client_settings()?.collect();
        config
            .set("client.id", "linkledger-relay")
            .set("acks", "all")
            // A batch must not arrive while the one before it may still be refused: not every
            // broker minds the sequence.
            .set("max.in.flight.requests.per.connection", "1")
            .set("enable.idempotence", "true")
            // Without it, later batches overtake a refused one: a hole for every consumer.
            .set("enable.gapless.guarantee", "true")
            // A record that times out leaves a hole too; the relay waits instead.
            .set("message.timeout.ms", "0")
            .set("compression.type", compression)
            .set("queue.buffering.max.ms", "0")
            // Brokers that are back after an outage are found soon, not after 10 s.
            .set("reconnect.backoff.max.ms", "1000")
            .set("allow.auto.create.topics", "false");
        // What is in the files of certificates is looked at when a client is made.
        config
            .create::<BaseProducer>()
            .context("can't make a Kafka client")?;
        Ok(Self {
            config,
            topic: kafka.topic.clone(),
            connection: Mutex::new(None),
            trouble: KafkaTrouble::new(RIGHTS),
        })
    }

    /// One producer's work; it is thrown away if it fails.
    async fn attempt(
        &self,
        connection: &mut Option<Connection>,
        events: &[PublishedEvent],
        batch_num_messages: Option<&str>,
    ) -> Published {
        let mut connected = match connection.take() {
            Some(connected) => connected,
            None => match self.connect(batch_num_messages).await {
                Ok(connected) => connected,
                Err(error) => return Published::failed(error),
            },
        };
        let published = connected.publish(events).await;
        if published.failure.is_none() {
            *connection = Some(connected);
        } else {
            connected.discard();
        }
        published
    }

    async fn connect(&self, batch_num_messages: Option<&str>) -> anyhow::Result<Connection> {
        let (mut config, topic) = (self.config.clone(), self.topic.clone());
        let trouble = self.trouble.clone();
        if let Some(most) = batch_num_messages {
            config.set("batch.num.messages", most);
        }
        let made = spawn_blocking(move || {
            let producer: FutureProducer<_> = config
                .create_with_context(trouble)
                .context("can't make a producer")?;
            check_topic(&producer, topic.as_str())?;
            anyhow::Ok(Connection::new(producer, topic))
        });
        made.await.context("making a producer has panicked")?
    }
}

/// Shard and partition are the same number: any other count of partitions breaks the order.
fn check_topic(producer: &FutureProducer<KafkaTrouble>, topic: &str) -> anyhow::Result<()> {
    let metadata = producer
        .client()
        .fetch_metadata(Some(topic), METADATA_TIMEOUT)?;
    let partitions = metadata
        .topics()
        .iter()
        .find(|it| it.name() == topic)
        .map(|t| t.partitions().len());
    match partitions {
        Some(count) if count == usize::from(SHARD_COUNT) => Ok(()),
        Some(0) | None => anyhow::bail!(
            "the topic {topic} does not exist; create it with {SHARD_COUNT} partitions"
        ),
        Some(count) => anyhow::bail!(
            "the topic {topic} has {count} partitions instead of {SHARD_COUNT}; create it anew"
        ),
    }
}

#[async_trait]
impl EventPublisher for KafkaPublisher {
    async fn publish(&self, events: &[PublishedEvent]) -> Published {
        let mut connection = self.connection.lock().await;
        let mut published = self.attempt(&mut connection, events, None).await;
        if !published.is_alone
            && published
                .failure
                .as_ref()
                .is_some_and(delivery::is_too_large)
        {
            // It was the size of a batch, or of some record in it: the others go, it is named.
            let rest = published.missing_of(events);
            published.failure = None;
            published.followed_by(self.attempt(&mut connection, &rest, Some("1")).await);
            if let Some(connected) = connection.take() {
                connected.discard();
            }
        }
        match published.failure.take() {
            None => self.trouble.is_over(),
            Some(error) => published.failure = Some(self.trouble.explain(error)),
        }
        published
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.told().map(|(_, words)| words)
    }
}
