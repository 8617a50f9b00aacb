//! Reads the event from a record of the topic.

use linkledger_core::{
    cloud_event::{PublishedEvent, RecordError},
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
