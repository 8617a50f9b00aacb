//! One producer of librdkafka, with the outcomes of its records.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use linkledger_clicks::CLICK_PARTITIONS;
use linkledger_service::{
    kafka_close,
    kafka_config::{KafkaConfig, TopicName},
    kafka_errors::{KafkaErrors, STATISTICS_INTERVAL},
};
use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    message::Message as _,
    metadata::MetadataTopic,
    producer::{
        BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig,
        ThreadedProducer,
    },
    statistics::Statistics,
};
use tokio::task::spawn_blocking;

/// Timeout for the description of the topic.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Producer with the outcomes of its records since they were last taken.
pub(super) struct PublisherConnection {
    producer: ThreadedProducer<DeliveryContext>,
    deliveries: Deliveries,
}

type Deliveries = Arc<Mutex<Vec<ClickDelivery>>>;

/// Outcome of a record.
#[derive(Debug)]
pub(super) struct ClickDelivery {
    pub(super) partition: u8,
    pub(super) sequence: u64,
    /// Reason of a failure; `None` for an acknowledgement.
    pub(super) error: Option<KafkaError>,
}

/// Receiver of librdkafka's reports, on a thread of the producer.
struct DeliveryContext {
    errors: KafkaErrors,
    deliveries: Deliveries,
}

impl ClientContext for DeliveryContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.errors.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        self.errors.stats(statistics);
    }
}

impl ProducerContext for DeliveryContext {
    /// Sequence of the record.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, sequence: usize) {
        let (message, error) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => (message, Some(error.clone())),
        };
        if let Some(error) = &error {
            self.errors.record(error, "");
        }
        lock(&self.deliveries).push(ClickDelivery {
            partition: u8::try_from(message.partition()).expect("a partition of the outbox"),
            sequence: sequence as u64,
            error,
        });
    }
}

fn lock(deliveries: &Deliveries) -> MutexGuard<'_, Vec<ClickDelivery>> {
    // No push can panic half-way.
    deliveries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the settings of the producer.
///
/// # Errors
/// Returns an error if librdkafka refuses the settings.
pub(super) fn client_config(kafka: &KafkaConfig) -> anyhow::Result<ClientConfig> {
    let mut config: ClientConfig = kafka.client_settings()?.collect();
    config
        .set("client.id", "linkledger-clicks")
        .set("acks", "all")
        .set("enable.idempotence", "true")
        // Otherwise later batches overtake a refused batch, and would be counted before it.
        .set("enable.gapless.guarantee", "true")
        // A record that times out would be lost; the outbox waits instead.
        .set("message.timeout.ms", "0")
        .set("compression.type", "lz4")
        // Clicks arrive every 10 ms; the requests of one round are few and large.
        .set("queue.buffering.max.ms", "5")
        // After an outage the producer reconnects within a second, not after 10 s.
        .set("reconnect.backoff.max.ms", "1000")
        .set("allow.auto.create.topics", "false")
        .set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
    // librdkafka reads the files of certificates when a client is made.
    config
        .create::<BaseProducer>()
        .context("cannot make a Kafka client")?;
    Ok(config)
}

impl PublisherConnection {
    /// Makes a producer, and checks the topic. Blocks for up to 5 s.
    pub(super) fn open(
        config: &ClientConfig,
        topic: &TopicName,
        errors: &KafkaErrors,
    ) -> anyhow::Result<Self> {
        let deliveries = Deliveries::default();
        let context = DeliveryContext {
            errors: errors.clone(),
            deliveries: Arc::clone(&deliveries),
        };
        let producer: ThreadedProducer<_> = config
            .create_with_context(context)
            .context("cannot make a Kafka producer")?;
        if let Err(error) = check_topic(&producer, topic) {
            close(producer);
            return Err(errors.explain(error));
        }
        errors.clear();
        Ok(Self {
            producer,
            deliveries,
        })
    }

    pub(super) fn send(
        &self,
        record: BaseRecord<'_, String, [u8], usize>,
    ) -> Result<(), KafkaError> {
        self.producer.send(record).map_err(|(error, _)| error)
    }

    /// Returns the outcomes since the last call, in the order of each partition.
    pub(super) fn take_deliveries(&self) -> Vec<ClickDelivery> {
        mem::take(&mut *lock(&self.deliveries))
    }

    /// Returns the error after which the producer sends nothing any more.
    pub(super) fn fatal_error(&self) -> Option<KafkaError> {
        let (code, reason) = self.producer.client().fatal_error()?;
        tracing::debug!(?code, reason, "the producer of clicks has failed");
        Some(KafkaError::Global(RDKafkaErrorCode::Fatal))
    }

    /// Closes the producer in the background: closing takes up to two seconds.
    pub(super) fn discard(self) {
        drop(spawn_blocking(move || close(self.producer)));
    }

    /// Closes the producer, and waits for its end.
    pub(super) async fn close(self) {
        spawn_blocking(move || close(self.producer)).await.ok();
    }
}

/// Discards the queued records of a producer, which a client that is left behind would still send, and closes the
/// producer.
fn close(producer: ThreadedProducer<DeliveryContext>) {
    kafka_close::close_in_time(move || {
        producer.purge(PurgeConfig::default().queue().inflight());
        drop(producer);
    });
}

/// Checks that the topic exists with the right number of partitions.
fn check_topic<C: ProducerContext>(
    producer: &ThreadedProducer<C>,
    topic: &TopicName,
) -> anyhow::Result<()> {
    let client = producer.client();
    let metadata = client.fetch_metadata(Some(topic.as_str()), ANSWER_TIMEOUT)?;
    let described = metadata
        .topics()
        .iter()
        .find(|it| it.name() == topic.as_str());
    if let Some(error) = described.and_then(MetadataTopic::error) {
        return Err(KafkaError::MetadataFetch(error.into()).into());
    }
    let partitions = described.map_or(0, |it| it.partitions().len());
    ensure!(
        partitions == usize::from(CLICK_PARTITIONS),
        "the topic {topic} has {partitions} partitions, and {CLICK_PARTITIONS} are needed; create a topic \
         anew, or correct --kafka-clicks-topic"
    );
    Ok(())
}
