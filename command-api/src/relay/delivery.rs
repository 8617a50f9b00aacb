//! Delivery of events by one producer, and their acknowledgements.
//!
//! Invariant: in each partition nothing is sent after a refused record.

use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use linkledger_core::{
    cloud_event::{HEADERS_MAX, PublishedEvent},
    timestamp,
};
use linkledger_event_store::log::PerShard;
use linkledger_service::{
    fail_point, kafka_close, kafka_config::TopicName, kafka_errors::KafkaErrors,
};
use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer as _, PurgeConfig},
};
use tokio::task::{JoinHandle, spawn_blocking};

use super::{publisher::Published, topic::TIMESTAMP_LIMITS};

/// Interval between two checks of a silent producer for a fatal error.
const FATAL_ERROR_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time in which no broker forgets a silent producer; Kafka's default is a day.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);

/// Longest wait for answers while a producer is closed; the next producer sends unanswered events
/// again.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Way in which a producer sends a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// All records at once, but the first record of each shard before the others.
    Batches,
    /// Each record after the acknowledgement of the last one: a refusal names exactly one record.
    OneByOne,
}

/// Producer, and the partitions whose brokers know the producer.
pub(super) struct Connection {
    producer: FutureProducer<KafkaErrors>,
    topic: TopicName,
    pace: Pace,
    /// By shard: time of the last acknowledgement to this producer.
    known_at: PerShard<Option<Instant>>,
}

impl Connection {
    pub(super) fn new(producer: FutureProducer<KafkaErrors>, topic: TopicName, pace: Pace) -> Self {
        Self {
            producer,
            topic,
            pace,
            known_at: PerShard::default(),
        }
    }

    /// Sends the events and waits until all are acknowledged or one is refused. After a failure the
    /// producer must not be used again.
    ///
    /// A broker accepts any first batch of an unknown producer, even a second batch whose
    /// predecessor the broker has refused: a gap, and librdkafka takes the first batch for
    /// delivered. So the first record of each shard is sent alone (ADR 6).
    pub(super) async fn publish(&mut self, events: &[PublishedEvent]) -> Published {
        let now = Instant::now();
        let is_known = self
            .known_at
            .map(|at| at.is_some_and(|at| now - at < REMEMBERED_FOR));
        let mut introduced = is_known;
        let (first, rest): (Vec<_>, Vec<_>) = events.iter().partition(|event| {
            let shard = event.event.shard.index();
            !std::mem::replace(&mut introduced[shard], true)
        });
        let rest = match self.pace {
            Pace::Batches => vec![rest],
            Pace::OneByOne => rest.into_iter().map(|event| vec![event]).collect(),
        };
        let mut published = self.deliver(&first).await;
        for mut batch in rest {
            if published.failure.is_some() {
                break;
            }
            batch.retain(|event| published.refused[event.event.shard.index()].is_none());
            published.followed_by(self.deliver(&batch).await);
        }
        published
    }

    /// Closes the producer without waiting for answers, in the background: closing takes up to two
    /// seconds. The task returns false, since requests may be unanswered.
    pub(super) fn discard(self) -> JoinHandle<bool> {
        spawn_blocking(move || {
            close(self.producer);
            false
        })
    }

    /// Waits for answers up to [`ANSWER_WAIT`], and closes the producer within two seconds. The task
    /// returns true if all requests were answered and the producer is closed.
    pub(super) fn close(self) -> JoinHandle<bool> {
        spawn_blocking(move || {
            let flushed = self.producer.flush(ANSWER_WAIT);
            close(self.producer) && flushed.is_ok()
        })
    }

    /// Sends the events at once, and waits until each is acknowledged or failed.
    async fn deliver(&mut self, events: &[&PublishedEvent]) -> Published {
        let mut published = Published::default();
        let mut deliveries = FuturesUnordered::new();
        for (nth, event) in events.iter().enumerate() {
            let refused = &mut published.refused[event.event.shard.index()];
            if refused.is_some() {
                continue;
            }
            match self.producer.send_result(self.record(event, &event.key())) {
                Ok(delivery) => deliveries.push(delivery.map(move |delivery| (nth, delivery))),
                // Nothing was sent, so the producer remains usable.
                Err((error, _)) if is_of_record(&error) => {
                    *refused = Some(failure_of(event, error));
                }
                Err((error, _)) => {
                    published.failure = Some(failure_of(event, error));
                    break;
                }
            }
        }
        if !events.is_empty() {
            fail_point::reached("relay.sent");
        }
        let mut acknowledged: Vec<Option<i64>> = vec![None; events.len()];
        let mut has_given_up = false;
        while !deliveries.is_empty() {
            if published.failure.is_some() && !has_given_up {
                // After a fatal error librdkafka neither sends its queue nor reports the queue as
                // failed; the purge ends the wait for the queued records.
                self.producer
                    .purge(PurgeConfig::default().queue().inflight());
                has_given_up = true;
            }
            let failure = tokio::select! {
                Some((nth, delivery)) = deliveries.next() => match delivery {
                    Ok(Ok(delivery)) => {
                        acknowledged[nth] = Some(delivery.offset);
                        continue;
                    }
                    Ok(Err((error, _))) => {
                        let event = events[nth];
                        if is_of_record(&error) {
                            let refused = &mut published.refused[event.event.shard.index()];
                            refused.get_or_insert_with(|| failure_of(event, error.clone()));
                        }
                        failure_of(event, error)
                    }
                    Err(_canceled) => anyhow::anyhow!("the producer was dropped"),
                },
                () = tokio::time::sleep(FATAL_ERROR_POLL_INTERVAL) => {
                    let Some((_, text)) = self.producer.client().fatal_error() else {
                        continue;
                    };
                    // The code of the fatal error may be about the size of a batch, not about this
                    // event.
                    anyhow::Error::new(KafkaError::Global(RDKafkaErrorCode::Fatal)).context(text)
                }
            };
            published.failure.get_or_insert(failure);
        }
        self.record_acknowledged(events, &acknowledged, &mut published);
        published
    }

    /// Adds the acknowledged events to a result. `offsets` has the offset of each acknowledged
    /// record, below 0 if the broker reports none.
    fn record_acknowledged(
        &mut self,
        events: &[&PublishedEvent],
        offsets: &[Option<i64>],
        to: &mut Published,
    ) {
        for (event, offset) in contiguous(events, offsets) {
            let shard = event.event.shard.index();
            to.acknowledged[shard] = Some(event.event.position);
            to.add_offset(shard, Some(offset).filter(|offset| *offset >= 0));
            self.known_at[shard] = Some(Instant::now());
        }
    }

    fn record<'a>(&'a self, event: &'a PublishedEvent, key: &'a str) -> FutureRecord<'a, str, str> {
        let mut headers = Some(OwnedHeaders::new_with_capacity(HEADERS_MAX));
        event.each_header(|key, value| {
            let value = Some(value);
            headers = headers
                .take()
                .map(|headers| headers.insert(Header { key, value }));
        });
        FutureRecord::to(self.topic.as_str())
            .partition(i32::from(event.event.shard.number()))
            .key(key)
            .payload(event.event.payload.as_str())
            .timestamp(timestamp_ms(event))
            .headers(headers.expect("the headers are put back each time"))
    }
}

/// Returns the acknowledged events up to the first unacknowledged event of each shard.
fn contiguous<'a>(
    events: &[&'a PublishedEvent],
    offsets: &[Option<i64>],
) -> Vec<(&'a PublishedEvent, i64)> {
    let mut is_broken = PerShard::<bool>::default();
    let mut contiguous = Vec::with_capacity(events.len());
    for (event, offset) in events.iter().zip(offsets) {
        let shard = event.event.shard.index();
        match offset {
            Some(offset) if !is_broken[shard] => contiguous.push((*event, *offset)),
            Some(_) => {}
            None => is_broken[shard] = true,
        }
    }
    contiguous
}

/// Discards the queued events of a producer, which a client that is left behind would still send, and closes
/// the producer. Returns false if the producer is left behind.
fn close(producer: FutureProducer<KafkaErrors>) -> bool {
    kafka_close::close_in_time(move || {
        producer.purge(PurgeConfig::default().queue().inflight());
        drop(producer);
    })
}

/// Returns true if the error is about the content or the size of the record or its batch: the broker
/// may accept records of other shards.
fn is_of_record(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::MessageSizeTooLarge
                | Code::MessageBatchTooLarge
                | Code::InvalidRecord
                | Code::InvalidDifferentRecord
                | Code::InvalidTimestamp
        )
    )
}

fn failure_of(event: &PublishedEvent, error: KafkaError) -> anyhow::Error {
    let advice = match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::MessageBatchTooLarge) => {
            ": the topic must take larger messages (max.message.bytes)".to_owned()
        }
        Some(RDKafkaErrorCode::InvalidTimestamp) => format!(
            ": the event is of {}, and the topic must take events of any time ({} without a limit; \
             `command-api topic check` prints the command)",
            timestamp::format(event.event.recorded_at),
            TIMESTAMP_LIMITS.join(", ")
        ),
        _ if is_of_record(&error) => ": the log of the broker names the reason".to_owned(),
        _ => String::new(),
    };
    let (event_id, shard) = (event.event.event_id, event.event.shard);
    let position = event.event.position;
    anyhow::Error::new(error).context(format!(
        "event {event_id}, position {position} of shard {shard}, was refused{advice}"
    ))
}

/// Returns Kafka's timestamp of the record: the time of the decision.
fn timestamp_ms(event: &PublishedEvent) -> i64 {
    let milliseconds = event.event.recorded_at.unix_timestamp_nanos() / 1_000_000;
    i64::try_from(milliseconds).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use linkledger_core::{
        envelope::{Metadata, RecordedEvent},
        id::{AccountId, EventId},
        shard::{Position, Shard},
    };
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    fn event((shard, position): (i64, Position)) -> PublishedEvent {
        let event = RecordedEvent {
            shard: Shard::new(shard).unwrap(),
            position,
            stream_id: Uuid::nil(),
            version: 1,
            account_id: AccountId::from_uuid(Uuid::nil()),
            event_id: EventId::from_uuid(Uuid::nil()),
            event_type: "LinkCreated".to_owned(),
            schema_version: 1,
            payload: "{}".to_owned(),
            metadata: Metadata::default(),
            recorded_at: OffsetDateTime::UNIX_EPOCH,
        };
        PublishedEvent::new(event, 1)
    }

    #[test]
    fn acknowledgements_after_refused_record_are_ignored() {
        let events = [(2, 7), (2, 8), (2, 9), (5, 1), (5, 2), (9, 4), (9, 5)].map(event);
        let events: Vec<_> = events.iter().collect();
        let offsets = [Some(6), None, Some(8), Some(0), Some(-1), None, Some(9)];
        let counts = contiguous(&events, &offsets);
        let counts: Vec<_> = counts
            .iter()
            .map(|(event, offset)| (event.event.shard.number(), event.event.position, *offset))
            .collect();
        assert_eq!(counts, [(2, 7, 6), (5, 1, 0), (5, 2, -1)]);
    }
}
