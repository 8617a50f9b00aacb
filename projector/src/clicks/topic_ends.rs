//! Begins and ends of the claimed partitions, asked for about once a second.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use linkledger_event_store::time_limit::{self, within};
use linkledger_service::kafka_errors::KafkaErrors;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{Consumer as _, StreamConsumer},
    error::KafkaResult,
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::{task::JoinHandle, time::Instant};

use super::{consumer::ClickConsumer, position};

/// Interval of the requests.
const INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a request.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Offsets between which a partition has records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionEnds {
    /// Offset of the first record.
    pub(super) begin: i64,
    /// Offset after the last record.
    pub(super) end: i64,
}

/// Answer to a request.
#[derive(Debug)]
pub(super) struct TopicEnds {
    /// Instant before the request, by the clock of the database.
    pub(super) at: OffsetDateTime,
    /// Offset of each partition up to which the aggregation had counted before the request.
    pub(super) counted: BTreeMap<u8, i64>,
    /// Begins and ends of the partitions.
    pub(super) ends: BTreeMap<u8, PartitionEnds>,
}

/// Sends one request at a time.
#[derive(Default)]
pub(super) struct TopicEndsRequests {
    begun_at: Option<Instant>,
    running: Option<JoinHandle<KafkaResult<TopicEnds>>>,
}

impl TopicEndsRequests {
    /// Returns true if no request runs and the next one is due.
    pub(super) fn is_due(&self) -> bool {
        self.running.is_none() && self.begun_at.is_none_or(|at| at.elapsed() >= INTERVAL)
    }

    /// Makes the next request due at once, and drops the answer of a running one.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Begins a request for these partitions.
    ///
    /// # Errors
    /// Returns an error if the clock of the database cannot be read.
    pub(super) async fn begin(
        &mut self,
        pool: &PgPool,
        consumer: &ClickConsumer,
        counted: BTreeMap<u8, i64>,
    ) -> sqlx::Result<()> {
        self.begun_at = Some(Instant::now());
        let at = within(time_limit::ANSWER_TIME_MAX, position::clock(pool)).await?;
        let list = consumer.list(counted.keys().copied());
        let client = Arc::clone(&consumer.inner);
        self.running = Some(tokio::task::spawn_blocking(move || {
            let ends = ask(&client, &list)?;
            Ok(TopicEnds { at, counted, ends })
        }));
        Ok(())
    }

    /// Returns the answer of the request once it has ended.
    pub(super) async fn take(&mut self) -> Option<TopicEnds> {
        let running = self.running.take_if(|it| it.is_finished())?;
        match running.await {
            Ok(Ok(ends)) => Some(ends),
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot read the ends of the topic of clicks");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "a request for the ends of the topic of clicks panicked");
                None
            }
        }
    }
}

/// Asks for begins and ends of the partitions. Blocks.
///
/// # Errors
/// Returns an error if the cluster does not answer.
pub(super) fn ask(
    consumer: &StreamConsumer<KafkaErrors>,
    list: &TopicPartitionList,
) -> KafkaResult<BTreeMap<u8, PartitionEnds>> {
    // The begins first: they only grow.
    let begins = offsets(consumer, list, Offset::Beginning)?;
    let ends = offsets(consumer, list, Offset::End)?;
    let both = ends.into_iter().filter_map(|(partition, end)| {
        let begin = *begins.get(&partition)?;
        Some((partition, PartitionEnds { begin, end }))
    });
    Ok(both.collect())
}

/// Returns the offset of each partition at a logical place, or of its first record since an instant in milliseconds.
/// Partitions without such a record are absent. Blocks.
///
/// # Errors
/// Returns an error if the cluster does not answer.
pub(super) fn offsets(
    consumer: &StreamConsumer<KafkaErrors>,
    list: &TopicPartitionList,
    place: Offset,
) -> KafkaResult<BTreeMap<u8, i64>> {
    let mut places = list.clone();
    places.set_all_offsets(place)?;
    let answer = consumer.offsets_for_times(places, ANSWER_TIME_MAX)?;
    let offsets = answer.elements().into_iter().filter_map(|element| {
        element.error().ok()?;
        let Offset::Offset(offset) = element.offset() else {
            return None;
        };
        Some((u8::try_from(element.partition()).ok()?, offset))
    });
    Ok(offsets.collect())
}
