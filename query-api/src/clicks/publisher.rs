//! Publisher of clicks: an idempotent producer, which is replaced after a failure.
//!
//! Invariant: in each partition nothing is sent after a refused record by the same producer, so that the
//! next producer can continue from the first unacknowledged record, in order.

mod connection;
mod outage;

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use linkledger_clicks::{CLICK_PARTITIONS, RecordPlace, RecorderId};
use linkledger_core::{
    clock::{Clock, SetBackWatch},
    cloud_event::RecordKey,
};
use linkledger_service::kafka_headers;
use linkledger_service::{
    kafka_config::{KafkaConfig, TopicName},
    kafka_errors::KafkaErrors,
    metrics::CLICKS_LOST_TOTAL,
};
use metrics::counter;
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::BaseRecord,
};
use tokio::{
    runtime::Handle,
    task::{JoinHandle, spawn_blocking, yield_now},
};

use self::{connection::PublisherConnection, outage::PublisherOutage};
use super::outbox::Outbox;

/// Rights that the Kafka user of query-api needs.
pub(super) const RIGHTS: &str = "Write and Describe on the topic of clicks";
/// Interval between two checks of the producer for a fatal error.
const FATAL_ERROR_INTERVAL: Duration = Duration::from_secs(1);
/// Number of records that are sent without a yield to requests.
const PIECE_RECORDS: usize = 16;
/// First backoff before a new producer is made.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Longest such backoff.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Publishes the records of the outbox.
pub(super) struct ClickPublisher {
    config: ClientConfig,
    topic: TopicName,
    recorder_id: RecorderId,
    record_key: RecordKey,
    errors: KafkaErrors,
    state: State,
    backoff: Duration,
    checked_at: Instant,
    wall_clock: SetBackWatch,
    outage: PublisherOutage,
}

enum State {
    Connected(PublisherConnection),
    Connecting(JoinHandle<anyhow::Result<PublisherConnection>>),
    /// No producer until the backoff has passed.
    Waiting(Instant),
}

impl ClickPublisher {
    /// Returns a publisher, which connects when first used.
    ///
    /// # Errors
    /// Returns an error if librdkafka refuses the settings.
    pub(super) fn new(
        kafka: &KafkaConfig,
        recorder_id: RecorderId,
        record_key: RecordKey,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            config: connection::client_config(kafka)?,
            topic: kafka.topic.clone(),
            recorder_id,
            record_key,
            errors: KafkaErrors::new(RIGHTS),
            state: State::Waiting(now),
            backoff: BACKOFF_MIN,
            checked_at: now,
            wall_clock: SetBackWatch::new(clock),
            outage: PublisherOutage::default(),
        })
    }

    /// Handles acknowledgements and sends what may be sent. Never waits for the broker.
    pub(super) async fn publish(&mut self, outbox: &mut Outbox) {
        let now = Instant::now();
        if let Err(error) = self.advance(outbox, now).await {
            self.replace(outbox, now);
            self.outage.failed(&error);
        } else if let Some(set_back) = self.wall_clock.set_back() {
            tracing::warn!("{set_back}");
            self.replace(outbox, now);
        } else if let Some(lost) = self.errors.take_lost_brokers() {
            tracing::warn!("{lost}");
            self.replace(outbox, now);
        }
        self.outage.observe(outbox, &self.errors, now);
    }

    async fn advance(&mut self, outbox: &mut Outbox, now: Instant) -> anyhow::Result<()> {
        self.handle_deliveries(outbox, now)?;
        self.connect(now).await?;
        self.send(outbox, now).await
    }

    /// Closes the producer. Records that are not acknowledged may not be sent any more.
    pub(super) async fn close(self) {
        if let State::Connected(connection) = self.state {
            connection.close().await;
        }
    }

    /// Removes acknowledged records from the outbox. A failed record makes the producer unusable.
    fn handle_deliveries(&mut self, outbox: &mut Outbox, now: Instant) -> anyhow::Result<()> {
        let State::Connected(connection) = &self.state else {
            return Ok(());
        };
        let mut failure = None;
        for delivery in connection.take_deliveries() {
            let (number, sequence) = (delivery.partition, delivery.sequence);
            match delivery.error {
                None => {
                    outbox.acknowledge(number, sequence, now);
                    self.backoff = BACKOFF_MIN;
                    self.outage.acknowledged();
                }
                Some(error) => {
                    if is_of_record(&error) {
                        drop_refused(outbox, number, sequence, &error);
                    }
                    failure.get_or_insert(error);
                }
            }
        }
        if now.saturating_duration_since(self.checked_at) >= FATAL_ERROR_INTERVAL {
            self.checked_at = now;
            failure = failure.or_else(|| connection.fatal_error());
        }
        failure.map_or(Ok(()), |error| Err(self.errors.explain(error.into())))
    }

    /// Makes a producer in the background if there is none.
    async fn connect(&mut self, now: Instant) -> anyhow::Result<()> {
        match &mut self.state {
            State::Waiting(until) if *until <= now => {
                let (config, topic) = (self.config.clone(), self.topic.clone());
                let errors = self.errors.clone();
                let connecting =
                    spawn_blocking(move || PublisherConnection::open(&config, &topic, &errors));
                self.state = State::Connecting(connecting);
                Ok(())
            }
            State::Connecting(connecting) if connecting.is_finished() => {
                let made = connecting.await;
                // A handle gives its result once.
                self.state = State::Waiting(now);
                let made = made.context("making a Kafka producer has panicked")??;
                self.state = State::Connected(made);
                Ok(())
            }
            State::Connected(_) | State::Connecting(_) | State::Waiting(_) => Ok(()),
        }
    }

    /// Gives the producer the records that may be in flight, in pieces between which requests are answered.
    async fn send(&mut self, outbox: &mut Outbox, now: Instant) -> anyhow::Result<()> {
        let State::Connected(connection) = &self.state else {
            return Ok(());
        };
        let mut sent: usize = 0;
        for number in 0..CLICK_PARTITIONS {
            while let Some((sequence, record)) = outbox.next_to_send(number, now) {
                let key = record.link_id.to_string();
                let place = RecordPlace {
                    recorder_id: self.recorder_id,
                    partition: number,
                    sequence,
                };
                let headers = kafka_headers(place.headers(&record.value, &self.record_key));
                let record = BaseRecord::with_opaque_to(self.topic.as_str(), opaque(sequence))
                    .partition(i32::from(number))
                    .key(&key)
                    .payload(&*record.value)
                    .headers(headers);
                match connection.send(record) {
                    Ok(()) => {
                        outbox.mark_sent(number);
                        sent += 1;
                        if sent.is_multiple_of(PIECE_RECORDS) {
                            yield_now().await;
                        }
                    }
                    // Sent again after some acknowledgements.
                    Err(error) if is_full(&error) => return Ok(()),
                    Err(error) if is_of_record(&error) => {
                        if !drop_refused(outbox, number, sequence, &error) {
                            break;
                        }
                    }
                    Err(error) => return Err(self.errors.explain(error.into())),
                }
            }
        }
        Ok(())
    }

    /// Discards the producer: a new one sends from the first unacknowledged record, after a backoff.
    fn replace(&mut self, outbox: &mut Outbox, now: Instant) {
        let former = mem::replace(&mut self.state, State::Waiting(now + self.backoff));
        match former {
            State::Connected(connection) => connection.discard(),
            // Dropped here, a producer that is just made would block this thread.
            State::Connecting(connecting) => drop(spawn_blocking(move || {
                if let Ok(Ok(connection)) = Handle::current().block_on(connecting) {
                    connection.discard();
                }
            })),
            State::Waiting(_) => {}
        }
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        outbox.forget_producer();
    }
}

/// Checks that Kafka can be reached, and has the topic of clicks.
///
/// # Errors
/// Returns an error if librdkafka refuses the settings, Kafka does not answer, or the topic is missing or
/// has another number of partitions.
pub(crate) async fn check(kafka: &KafkaConfig) -> anyhow::Result<()> {
    let (config, topic) = (connection::client_config(kafka)?, kafka.topic.clone());
    let opening = spawn_blocking(move || {
        PublisherConnection::open(&config, &topic, &KafkaErrors::new(RIGHTS)).map(drop)
    });
    opening.await.context("the check of Kafka has panicked")?
}

/// Handles a refused record. Returns false if the record is sent again alone.
fn drop_refused(outbox: &mut Outbox, number: u8, sequence: u64, error: &KafkaError) -> bool {
    let Some(clicks) = outbox.refuse(number, sequence) else {
        return false;
    };
    counter!(CLICKS_LOST_TOTAL, "reason" => "refused").increment(clicks.into());
    tracing::error!(
        %error,
        partition = number,
        sequence,
        clicks,
        "the broker has refused a record of clicks, which is lost; the topic must take messages of 1 MiB \
         (max.message.bytes), and the log of the broker names other reasons"
    );
    true
}

fn opaque(sequence: u64) -> usize {
    usize::try_from(sequence).expect("a machine of 64 bits")
}

fn is_full(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
}

/// Returns true if the error is about the content or the size of the record or its batch. A refused timestamp is
/// that of the sending: once the clock is right, the record is taken.
fn is_of_record(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::MessageSizeTooLarge
                | Code::MessageBatchTooLarge
                | Code::InvalidRecord
                | Code::InvalidDifferentRecord
        )
    )
}

#[cfg(test)]
mod tests;
