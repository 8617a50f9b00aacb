//! Reads the event from a record of the topic.

use anyhow::{Context as _, ensure};
use linkledger_core::{
    cloud_event::{Headers, PublishedEvent, RECORD_BYTES_MAX, RecordKey},
    shard::Shard,
};
use rdkafka::{
    Message as _,
    message::{BorrowedMessage, Headers as _},
};

const NOT_TEXT: &str = "the record's value is not text";

/// Returns the event of a record in the partition of `shard`, if a relay of the log with this key has published it.
///
/// # Errors
/// Returns an error if the record carries no event of the log.
pub(super) fn event_of(
    shard: Shard,
    message: &BorrowedMessage<'_>,
    key: &RecordKey,
) -> anyhow::Result<PublishedEvent> {
    let payload = message.payload().context(NOT_TEXT)?;
    ensure!(
        payload.len() <= RECORD_BYTES_MAX as usize,
        "the record's value is longer than any event"
    );
    let payload = std::str::from_utf8(payload).context(NOT_TEXT)?;
    let headers: Headers<'_> = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter())
        .filter_map(|header| Some((header.key, std::str::from_utf8(header.value?).ok()?)))
        .collect();
    ensure!(
        key.verifies(shard, &headers, payload),
        "no relay of this log has published the record"
    );
    let payload = payload.to_owned();
    Ok(PublishedEvent::from_record(shard, &headers, payload)?)
}
