//! Reads the event from a record of the topic.

use linkledger_core::{
    cloud_event::{Headers, PublishedEvent, RECORD_BYTES_MAX, RecordError, RecordKey},
    shard::Shard,
};
use rdkafka::{
    Message as _,
    message::{BorrowedMessage, Headers as _},
};

/// Reason for which a record carries no event of the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableRecord {
    /// The headers are not those of an event.
    #[error(transparent)]
    Headers(#[from] RecordError),
    /// The value is absent, or not text.
    #[error("the record's value is not text")]
    Value,
    /// The value is longer than any event.
    #[error("the record's value is longer than any event")]
    TooLong,
    /// The code of the record is missing or wrong.
    #[error("no relay of this log has published the record")]
    Foreign,
}

/// Returns the event of a record in the partition of `shard`, if a relay of the log with this key has published it.
///
/// # Errors
/// Returns an error if the record carries no event of the log.
pub(super) fn event_of(
    shard: Shard,
    message: &BorrowedMessage<'_>,
    key: &RecordKey,
) -> Result<PublishedEvent, UnreadableRecord> {
    let payload = message.payload().ok_or(UnreadableRecord::Value)?;
    if payload.len() > RECORD_BYTES_MAX as usize {
        return Err(UnreadableRecord::TooLong);
    }
    let payload = std::str::from_utf8(payload).map_err(|_| UnreadableRecord::Value)?;
    let headers: Headers<'_> = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter())
        .filter_map(|header| Some((header.key, std::str::from_utf8(header.value?).ok()?)))
        .collect();
    if !key.verifies(shard, &headers, payload) {
        return Err(UnreadableRecord::Foreign);
    }
    let payload = payload.to_owned();
    Ok(PublishedEvent::from_record(shard, &headers, payload)?)
}
