//! Destination of the relay: Kafka, or the stand-in of a test.

use std::{mem, sync::Arc};

use anyhow::Context as _;
use async_trait::async_trait;
use linkledger_core::{
    cloud_event::{PublishedEvent, RecordKey},
    shard::Position,
};
use linkledger_event_store::log::PerShard;
use linkledger_service::{
    kafka_config::KafkaConfig,
    kafka_errors::{KafkaErrors, STATISTICS_INTERVAL},
};
use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, FutureProducer},
};
use tokio::{
    sync::Mutex,
    task::{JoinHandle, spawn_blocking},
};

use super::{
    delivery::{Connection, Pace},
    topic::{
        self, BATCH_BYTES_MAX, Topic, TopicSettings,
        tail::{self, Span, Tail},
    },
};

/// Rights that the Kafka user of the relay needs.
const RIGHTS: &str = "Read, Write, Describe and DescribeConfigs on the topic";
/// Reason why the broker does not answer, if no other reason is known.
const NO_ANSWER: &str = "the broker acknowledges nothing";

/// Result of publishing a batch.
#[derive(Debug, Default)]
pub struct Published {
    /// By shard: the highest position up to which every event of the batch is acknowledged.
    pub acknowledged: PerShard<Option<Position>>,
    /// By shard: the lowest and the highest offset of the acknowledged records. The broker reports
    /// no offset for a record that the broker had already.
    pub offsets: PerShard<Option<(i64, i64)>>,
    /// By shard: the refusal of a record of the shard, while records of other shards are accepted.
    pub refused: PerShard<Option<anyhow::Error>>,
    /// Failure because of which the other events are not published.
    pub failure: Option<anyhow::Error>,
}

impl Published {
    /// Adds the result of events that were published later.
    pub(super) fn followed_by(&mut self, later: Self) {
        for (acknowledged, later) in self.acknowledged.iter_mut().zip(later.acknowledged) {
            *acknowledged = later.or(*acknowledged);
        }
        for (shard, offsets) in later.offsets.into_iter().enumerate() {
            self.add_offset(shard, offsets.map(|(lowest, _)| lowest));
            self.add_offset(shard, offsets.map(|(_, highest)| highest));
        }
        for (refused, later) in self.refused.iter_mut().zip(later.refused) {
            *refused = refused.take().or(later);
        }
        self.failure = later.failure;
    }

    /// Adds the offset of a record, if the broker has reported one.
    pub(super) fn add_offset(&mut self, shard: usize, offset: Option<i64>) {
        if let Some(offset) = offset {
            let (lowest, highest) = self.offsets[shard].unwrap_or((offset, offset));
            self.offsets[shard] = Some((lowest.min(offset), highest.max(offset)));
        }
    }

    /// Returns true if a record was refused.
    pub(super) fn has_refusals(&self) -> bool {
        self.refused.iter().any(Option::is_some)
    }
}

/// Publisher of events, which keeps the given order within each shard.
#[async_trait]
pub trait EventPublisher: Send + Sync {
    /// Makes a producer and returns a description of the topic; returns `None` if there is a
    /// producer already.
    async fn connect(&self) -> anyhow::Result<Option<Topic>> {
        Ok(None)
    }

    /// Reads the records in the given spans of offsets from the topic, and verifies them with the key.
    async fn read_back(&self, _spans: &[Span], _key: &RecordKey) -> anyhow::Result<Tail> {
        Ok(Tail::default())
    }

    /// Closes all producers; nothing is sent after the return. Returns true if all requests since the
    /// last completed call of `close` were answered. If the future is dropped, the next call waits
    /// for the same producers and returns the same answer.
    async fn close(&self) -> bool {
        true
    }

    /// Returns a publisher for the retries of one shard, which has a producer of its own and sends
    /// each record after the acknowledgement of the last one.
    fn for_retries(self: Arc<Self>) -> Arc<dyn EventPublisher>;

    /// Publishes the events and waits for every acknowledgement, without a timeout.
    async fn publish(&self, events: &[PublishedEvent]) -> Published;

    /// Returns the reason why the broker does not answer.
    fn trouble(&self) -> String {
        NO_ANSWER.to_owned()
    }

    /// Returns, once, the reason to replace the producer, if the producer knows no broker any more.
    fn take_lost_brokers(&self) -> Option<&'static str> {
        None
    }
}

/// Publishes to Kafka with an idempotent producer.
pub struct KafkaPublisher {
    kafka: KafkaConfig,
    config: ClientConfig,
    connections: Mutex<Connections>,
    trouble: KafkaErrors,
    /// Way in which a batch is sent.
    pace: Pace,
}

#[derive(Default)]
struct Connections {
    /// Connection in use. A failed connection is replaced, and its unsent events are read from the
    /// log again.
    current: Option<Connection>,
    /// Closing connections; each task returns true if all requests were answered.
    former: Vec<JoinHandle<bool>>,
    /// True if a closed connection had unanswered requests.
    is_unanswered: bool,
    /// True once the log says that the right to read the topic's settings is missing.
    is_denial_logged: bool,
}

impl KafkaPublisher {
    /// Returns a publisher to the configured cluster and topic, which connects when first used.
    ///
    /// # Errors
    /// Returns an error if librdkafka refuses the settings.
    pub fn new(kafka: &KafkaConfig, compression: &str) -> anyhow::Result<Self> {
        let mut config: ClientConfig = kafka.client_settings()?.collect();
        config
            .set("client.id", "linkledger-relay")
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // Otherwise later batches overtake a refused batch: a gap for every consumer.
            .set("enable.gapless.guarantee", "true")
            // A record that times out would leave a gap too; the relay waits instead.
            .set("message.timeout.ms", "0")
            .set("message.max.bytes", BATCH_BYTES_MAX.to_string())
            .set("batch.size", BATCH_BYTES_MAX.to_string())
            .set("compression.type", compression)
            .set("queue.buffering.max.ms", "0")
            // After an outage the relay reconnects within a second, not after 10 s.
            .set("reconnect.backoff.max.ms", "1000")
            .set("allow.auto.create.topics", "false")
            .set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
        // A check only: librdkafka reads the files of certificates when a client is made, so a wrong path fails here.
        config
            .create::<BaseProducer>()
            .context("cannot make a Kafka client")?;
        Ok(Self {
            kafka: kafka.clone(),
            config,
            connections: Mutex::default(),
            trouble: KafkaErrors::new(RIGHTS),
            pace: Pace::Batches,
        })
    }

    async fn make(&self) -> anyhow::Result<Connection> {
        let (config, topic) = (self.config.clone(), self.kafka.topic.clone());
        let (trouble, pace) = (self.trouble.clone(), self.pace);
        let made = spawn_blocking(move || {
            let producer: FutureProducer<_> = config
                .create_with_context(trouble)
                .context("cannot make a Kafka producer")?;
            anyhow::Ok(Connection::new(producer, topic, pace))
        });
        made.await.context("making a producer has panicked")?
    }
}

#[async_trait]
impl EventPublisher for KafkaPublisher {
    async fn connect(&self) -> anyhow::Result<Option<Topic>> {
        let mut connections = self.connections.lock().await;
        if connections.current.is_some() {
            return Ok(None);
        }
        let topic = topic::admit(&self.kafka, self.trouble.clone()).await?;
        self.trouble.clear();
        if topic.settings == TopicSettings::Denied
            && !mem::replace(&mut connections.is_denial_logged, true)
        {
            tracing::warn!(
                kafka.topic = topic.name,
                "the relay cannot read the settings of the topic and would not notice a compacted \
                 topic: grant DescribeConfigs on the topic to the relay's principal"
            );
        }
        connections.current = Some(self.make().await?);
        Ok(Some(topic))
    }

    async fn read_back(&self, spans: &[Span], key: &RecordKey) -> anyhow::Result<Tail> {
        let read = tail::read(&self.kafka, spans, key).await;
        read.map_err(|error| self.trouble.explain(error))
    }

    async fn close(&self) -> bool {
        let mut connections = self.connections.lock().await;
        if let Some(current) = connections.current.take() {
            connections.former.push(current.close());
        }
        // Each task stays in the list until it has ended: a dropped call must be repeatable.
        while let Some(former) = connections.former.last_mut() {
            let all_answered = former.await.unwrap_or(false);
            connections.former.pop();
            connections.is_unanswered |= !all_answered;
        }
        !mem::take(&mut connections.is_unanswered)
    }

    fn for_retries(self: Arc<Self>) -> Arc<dyn EventPublisher> {
        Arc::new(Self {
            kafka: self.kafka.clone(),
            config: self.config.clone(),
            connections: Mutex::default(),
            trouble: KafkaErrors::new(RIGHTS),
            pace: Pace::OneByOne,
        })
    }

    async fn publish(&self, events: &[PublishedEvent]) -> Published {
        let mut connections = self.connections.lock().await;
        let current = match &mut connections.current {
            Some(current) => current,
            none => match self.make().await {
                Ok(made) => none.insert(made),
                Err(error) => {
                    return Published {
                        failure: Some(error),
                        ..Published::default()
                    };
                }
            },
        };
        let mut published = current.publish(events).await;
        if published.failure.is_some()
            && let Some(failed) = connections.current.take()
        {
            connections.former.retain(|former| !former.is_finished());
            connections.former.push(failed.discard());
            connections.is_unanswered = true;
        }
        match published.failure.take() {
            None => self.trouble.clear(),
            // The refusal of a record has made the producer unusable.
            Some(_) if published.has_refusals() => {}
            Some(error) => published.failure = Some(self.trouble.explain(error)),
        }
        published
    }

    fn trouble(&self) -> String {
        let known = self.trouble.most_specific();
        known.unwrap_or_else(|| NO_ANSWER.to_owned())
    }

    fn take_lost_brokers(&self) -> Option<&'static str> {
        self.trouble.take_lost_brokers()
    }
}
