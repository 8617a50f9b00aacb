//! Where the relay publishes to: Kafka, or whatever a test puts in its place.

use std::mem;

use anyhow::Context as _;
use async_trait::async_trait;
use linkledger_core::{
    cloud_event::PublishedEvent, event_store::log::PerShard, kafka_config::KafkaConfig,
    kafka_errors::KafkaErrors, shard::Position,
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
    delivery::{self, Connection},
    refusal::Refusal,
    topic::{
        self, BATCH_BYTES_MAX, Cluster, Settings,
        tail::{self, Record, Span},
    },
};

/// What our user must be allowed.
const RIGHTS: &str = "Read, Write, Describe and DescribeConfigs on the topic";

/// What the broker has acknowledged.
#[derive(Debug, Default)]
pub struct Published {
    /// By shard: the highest position below which nothing of the batch is missing.
    pub acknowledged: PerShard<Option<Position>>,
    /// By shard: the lowest and the highest offset that the broker told of these records. It tells
    /// none of a record that it had already.
    pub offsets: PerShard<Option<(i64, i64)>>,
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
        for (shard, offsets) in later.offsets.into_iter().enumerate() {
            self.add_offset(shard, offsets.map(|(lowest, _)| lowest));
            self.add_offset(shard, offsets.map(|(_, highest)| highest));
        }
        self.failure = later.failure;
        self.is_alone = later.is_alone;
    }

    /// With the offset of one more record, if the broker has told it.
    pub(super) fn add_offset(&mut self, shard: usize, offset: Option<i64>) {
        if let Some(offset) = offset {
            let (lowest, highest) = self.offsets[shard].unwrap_or((offset, offset));
            self.offsets[shard] = Some((lowest.min(offset), highest.max(offset)));
        }
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
    /// Makes ready to publish. Returns what was found of the cluster, unless all was ready before.
    async fn connect(&self) -> anyhow::Result<Option<Cluster>> {
        Ok(None)
    }

    /// Reads records that are there already.
    async fn read_back(&self, _spans: &[Span]) -> anyhow::Result<Vec<Record>> {
        Ok(Vec::new())
    }

    /// Ends what is left of earlier calls: when it returns nothing more is sent. Tells whether all
    /// that was sent since the last time has been answered. A call that is dropped changes nothing
    /// of what the next one waits for and tells.
    async fn close(&self) -> bool {
        true
    }

    /// Publishes and waits for every acknowledgement, for as long as it takes.
    async fn publish(&self, events: &[PublishedEvent]) -> Published;

    /// What holds it up, if that is known.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Publishes to Kafka with an idempotent producer.
pub struct KafkaPublisher {
    kafka: KafkaConfig,
    config: ClientConfig,
    connections: Mutex<Connections>,
    trouble: KafkaErrors,
}

#[derive(Default)]
struct Connections {
    /// Made anew after a failure: what the old one still held is thrown away with it and is read
    /// from the log again.
    current: Option<Connection>,
    /// On their way out; each tells whether all that it has sent was answered.
    former: Vec<JoinHandle<bool>>,
    /// Whether one that is gone has sent something that was not answered.
    is_unanswered: bool,
    /// That the settings of the topic can't be seen is told once.
    is_denied_told: bool,
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
            .set("message.max.bytes", BATCH_BYTES_MAX.to_string())
            .set("batch.size", BATCH_BYTES_MAX.to_string())
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
            kafka: kafka.clone(),
            config,
            connections: Mutex::default(),
            trouble: KafkaErrors::new(RIGHTS),
        })
    }

    /// One producer's work; it is thrown away if it fails.
    async fn attempt(
        &self,
        connections: &mut Connections,
        events: &[PublishedEvent],
        batch_num_messages: Option<&str>,
    ) -> Published {
        let current = match &mut connections.current {
            Some(current) => current,
            none => match self.make(batch_num_messages).await {
                Ok(made) => none.insert(made),
                Err(error) => return Published::failed(error),
            },
        };
        let published = current.publish(events).await;
        if published.failure.is_some() {
            connections.discard();
        }
        published
    }

    async fn make(&self, batch_num_messages: Option<&str>) -> anyhow::Result<Connection> {
        let (mut config, topic) = (self.config.clone(), self.kafka.topic.clone());
        let trouble = self.trouble.clone();
        if let Some(most) = batch_num_messages {
            config.set("batch.num.messages", most);
        }
        let made = spawn_blocking(move || {
            let producer: FutureProducer<_> = config
                .create_with_context(trouble)
                .context("can't make a producer")?;
            anyhow::Ok(Connection::new(producer, topic))
        });
        made.await.context("making a producer has panicked")?
    }

    /// What the cluster is, provided that events may be published to the topic.
    async fn describe(&self, is_denied_told: &mut bool) -> anyhow::Result<Cluster> {
        let cluster = topic::describe_for(&self.kafka, self.trouble.clone()).await?;
        self.trouble.clear();
        let name = self.kafka.topic.as_str();
        let Some(topic) = &cluster.topic else {
            let topic = name.to_owned();
            return Err(Refusal::NoTopic { topic }.into());
        };
        if let Some(refusal) = topic.refusal() {
            return Err(refusal.into());
        }
        if topic.settings == Settings::Denied && !mem::replace(is_denied_told, true) {
            tracing::warn!(
                kafka.topic = name,
                "the settings of the topic can't be seen, so it would not be noticed that it is \
                 compacted: grant DescribeConfigs on it to the relay's principal"
            );
        }
        Ok(cluster)
    }
}

impl Connections {
    fn discard(&mut self) {
        if let Some(current) = self.current.take() {
            self.former.retain(|it| !it.is_finished());
            self.former.push(current.discard());
            self.is_unanswered = true;
        }
    }
}

#[async_trait]
impl EventPublisher for KafkaPublisher {
    async fn connect(&self) -> anyhow::Result<Option<Cluster>> {
        let mut connections = self.connections.lock().await;
        if connections.current.is_some() {
            return Ok(None);
        }
        let cluster = self.describe(&mut connections.is_denied_told).await?;
        connections.current = Some(self.make(None).await?);
        Ok(Some(cluster))
    }

    async fn read_back(&self, spans: &[Span]) -> anyhow::Result<Vec<Record>> {
        let read = tail::read(&self.kafka, spans).await;
        read.map_err(|error| self.trouble.explain(error))
    }

    async fn close(&self) -> bool {
        let mut connections = self.connections.lock().await;
        if let Some(current) = connections.current.take() {
            connections.former.push(current.close());
        }
        // Each stays where it is until it is gone: who drops this call half-way asks again.
        while let Some(former) = connections.former.last_mut() {
            let all_answered = former.await.unwrap_or(false);
            connections.former.pop();
            connections.is_unanswered |= !all_answered;
        }
        !mem::take(&mut connections.is_unanswered)
    }

    async fn publish(&self, events: &[PublishedEvent]) -> Published {
        let mut connections = self.connections.lock().await;
        let mut published = self.attempt(&mut connections, events, None).await;
        if !published.is_alone
            && published
                .failure
                .as_ref()
                .is_some_and(delivery::is_too_large)
        {
            // It was the size of a batch, or of some record in it: the others go, it is named.
            let rest = published.missing_of(events);
            published.failure = None;
            published.followed_by(self.attempt(&mut connections, &rest, Some("1")).await);
            connections.discard();
        }
        match published.failure.take() {
            None => self.trouble.clear(),
            Some(error) => published.failure = Some(self.trouble.explain(error)),
        }
        published
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.most_specific().map(|(_, words)| words)
    }
}
