//! Where the relay publishes to: Kafka, or whatever a test puts in its place.

use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use futures::future::join_all;
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::log::PerShard,
    kafka_config::{KafkaConfig, TopicName},
    shard::{Position, SHARD_COUNT},
};
use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer as _},
};
use tokio::{sync::Mutex, task::spawn_blocking};

/// How long the broker may take to describe the topic, in seconds.
const METADATA_TIMEOUT: Duration = Duration::from_secs(5);

/// What the broker has acknowledged.
#[derive(Debug, Default)]
pub struct Published {
    /// By shard: the highest position below which nothing of the batch is missing.
    pub acknowledged: PerShard<Option<Position>>,
    /// Why the rest is not published.
    pub failure: Option<anyhow::Error>,
}

/// Publishes events in the order given, shard by shard.
#[async_trait]
pub trait EventPublisher: Send + Sync {
    /// Publishes and waits for every acknowledgement, for as long as it takes.
    async fn publish(&self, events: &[PublishedEvent]) -> Published;
}

/// Publishes to Kafka with an idempotent producer.
pub struct KafkaPublisher {
    config: ClientConfig,
    topic: TopicName,
    /// Made when first needed, and made anew after a failure: what the old one still held is
    /// thrown away with it and is read from the log again.
    producer: Mutex<Option<FutureProducer>>,
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
            .set("enable.idempotence", "true")
            // Without it, later batches overtake a refused one: a hole for every consumer.
            .set("enable.gapless.guarantee", "true")
            // A record that times out leaves a hole too; the relay waits instead.
            .set("message.timeout.ms", "0")
            .set("compression.type", compression)
            .set("queue.buffering.max.ms", "0")
            .set("allow.auto.create.topics", "false");
        Ok(Self {
            config,
            topic: kafka.topic.clone(),
            producer: Mutex::new(None),
        })
    }

    async fn producer(&self) -> anyhow::Result<FutureProducer> {
        let mut slot = self.producer.lock().await;
        if let Some(producer) = &*slot {
            return Ok(producer.clone());
        }
        let (config, topic) = (self.config.clone(), self.topic.clone());
        let made = spawn_blocking(move || {
            let producer: FutureProducer = config.create().context("can't make a producer")?;
            check_topic(&producer, topic.as_str())?;
            anyhow::Ok(producer)
        });
        let producer = made.await.context("making a producer has panicked")??;
        *slot = Some(producer.clone());
        Ok(producer)
    }
}

/// Shard and partition are the same number: any other count of partitions breaks the order.
fn check_topic(producer: &FutureProducer, topic: &str) -> anyhow::Result<()> {
    let metadata = producer
        .client()
        .fetch_metadata(Some(topic), METADATA_TIMEOUT)
        .context("the broker does not answer")?;
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
        let mut published = Published::default();
        let producer = match self.producer().await {
            Ok(producer) => producer,
            Err(error) => {
                return Published {
                    failure: Some(error),
                    ..published
                };
            }
        };
        let mut deliveries = Vec::with_capacity(events.len());
        for event in events {
            match producer.send_result(record(self.topic.as_str(), event, &event.key())) {
                Ok(delivery) => deliveries.push(delivery),
                Err((error, _)) => {
                    published.failure = Some(error.into());
                    break;
                }
            }
        }
        let mut is_broken = PerShard::<bool>::default();
        for (event, delivery) in events.iter().zip(join_all(deliveries).await) {
            let shard = event.event.shard.index();
            match delivery {
                Ok(Ok(_)) if !is_broken[shard] => {
                    published.acknowledged[shard] = Some(event.event.position);
                }
                Ok(Ok(_)) => {}
                Ok(Err((error, _))) => {
                    is_broken[shard] = true;
                    published.failure.get_or_insert(error.into());
                }
                Err(_canceled) => {
                    is_broken[shard] = true;
                    let error = anyhow::anyhow!("the producer was dropped");
                    published.failure.get_or_insert(error);
                }
            }
        }
        if published.failure.is_some() {
            *self.producer.lock().await = None;
        }
        published
    }
}

fn record<'a>(
    topic: &'a str,
    event: &'a PublishedEvent,
    key: &'a str,
) -> FutureRecord<'a, str, str> {
    let mut headers = OwnedHeaders::new();
    for (name, value) in event.headers() {
        headers = headers.insert(Header {
            key: name,
            value: Some(&value),
        });
    }
    FutureRecord::to(topic)
        .partition(i32::from(event.event.shard.number()))
        .key(key)
        .payload(event.event.payload.as_str())
        .timestamp(timestamp_ms(event))
        .headers(headers)
}

/// Kafka's own timestamp of the record: when the event was decided.
fn timestamp_ms(event: &PublishedEvent) -> i64 {
    let milliseconds = event.event.recorded_at.unix_timestamp_nanos() / 1_000_000;
    i64::try_from(milliseconds).unwrap_or(0)
}
