//! Reads a click from a record of the topic.

use linkledger_clicks::{Click, ClickRecordError, RecordPlace, tally::PartitionRecord};
use linkledger_core::cloud_event::RecordKey;
use rdkafka::{
    Message as _,
    message::{BorrowedMessage, Headers as _},
};

/// Longest id of a record that is kept; longer ones are cut.
const ID_LENGTH_MAX: usize = 200;

/// Returns the record, and the reason if it cannot be read, as one without a valid code. Its click lacks the slug, which
/// no statistics need: many clicks wait in memory.
pub(in crate::clicks) fn read(
    partition: u8,
    message: &BorrowedMessage<'_>,
    key: &RecordKey,
) -> (PartitionRecord, Option<ClickRecordError>) {
    let headers = || {
        let headers = message.headers().into_iter();
        headers
            .flat_map(|headers| headers.iter())
            .map(|header| (header.key, header.value.unwrap_or_default()))
    };
    let record_id = headers()
        .find(|(name, _)| *name == "ce_id")
        .and_then(|(_, id)| std::str::from_utf8(id).ok())
        .filter(|id| !id.contains('\0'))
        .map(|id| id.chars().take(ID_LENGTH_MAX).collect());
    let value = message.payload().unwrap_or_default();
    let place = RecordPlace::read(partition, headers(), value, key);
    let read = place.map(|place| (place, Click::from_value(value)));
    let (place, click, error) = match read {
        Ok((place, Ok(click))) => (Some(place), Some(click), None),
        Ok((place, Err(error))) => (Some(place), None, Some(error)),
        Err(error) => (None, None, Some(error)),
    };
    let record = PartitionRecord {
        offset: message.offset(),
        record_id,
        place: place.map(|place| (place.recorder_id, place.sequence)),
        click: click.map(|click| Click {
            slug: String::new(),
            ..click
        }),
    };
    (record, error)
}
