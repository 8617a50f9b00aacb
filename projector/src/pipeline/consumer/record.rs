//! Reads the event from a record of the topic.

use std::mem;

use linkledger_core::{
    cloud_event::{PublishedEvent, RecordError},
    metrics::RECORDS_UNREADABLE_TOTAL,
    shard::Shard,
};
use metrics::counter;
use rdkafka::{
    Message as _,
    message::{BorrowedMessage, Headers as _},
};
use tokio::time::Instant;

use crate::pipeline::engine::FOREIGN_LOG_INTERVAL;

/// Reason for which a record carries no event of the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableRecord {
    /// The headers are not those of an event.
    #[error(transparent)]
    Headers(#[from] RecordError),
    /// The value is absent, or not text.
    #[error("the record's value is not text")]
    Value,
}

/// Returns the event of a record in the partition of `shard`.
///
/// # Errors
/// Returns an error if the record carries no event of the shard.
pub(super) fn event_of(
    shard: Shard,
    message: &BorrowedMessage<'_>,
) -> Result<PublishedEvent, UnreadableRecord> {
    let payload = message
        .payload()
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .ok_or(UnreadableRecord::Value)?;
    let headers = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter())
        .filter_map(|header| Some((header.key, std::str::from_utf8(header.value?).ok()?)))
        .collect();
    Ok(PublishedEvent::from_record(
        shard,
        &headers,
        payload.to_owned(),
    )?)
}

/// Records that carry no event. The records are treated as absent: events that the topic lacks are read
/// from the event store.
#[derive(Default)]
pub(super) struct UnreadableRecords {
    /// Number of records since the last line of the log.
    count: u64,
    first: Option<String>,
    logged_at: Option<Instant>,
}

impl UnreadableRecords {
    pub(super) fn add(&mut self, error: &UnreadableRecord, message: &BorrowedMessage<'_>) {
        counter!(RECORDS_UNREADABLE_TOTAL).increment(1);
        self.count += 1;
        self.first.get_or_insert_with(|| {
            let (partition, offset) = (message.partition(), message.offset());
            format!("{error} (partition {partition}, offset {offset})")
        });
    }

    /// Logs one line a minute for all unreadable records.
    pub(super) fn report_if_due(&mut self) {
        let is_logged = |at: Instant| at.elapsed() < FOREIGN_LOG_INTERVAL;
        if self.logged_at.is_some_and(is_logged) {
            return;
        }
        if let Some(first) = self.first.take() {
            self.logged_at = Some(Instant::now());
            tracing::warn!(
                count = mem::take(&mut self.count),
                first,
                "the topic has records that are not events of the log"
            );
        }
    }
}
