//! Reads the event from a record of the topic.

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

/// Reason for which a record carries no event of the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableRecord {
    /// The headers are not those of an event.
    #[error(transparent)]
    Headers(#[from] RecordError),
    /// The value is absent, or not text.
    #[error("the record's value is not text")]
    Value,
    /// The producer of the record computes shards in another way.
    #[error("the record's account does not belong to this partition")]
    Partition,
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
    let published = PublishedEvent::from_record(shard, &headers, payload.to_owned())?;
    if Shard::of(published.event.account_id) != shard {
        return Err(UnreadableRecord::Partition);
    }
    Ok(published)
}

/// Records of one delivery that carry no event. The records are treated as absent: events that the
/// topic lacks are read from the event store.
#[derive(Default)]
pub(super) struct UnreadableRecords {
    count: u64,
    first: Option<String>,
}

impl UnreadableRecords {
    pub(super) fn add(&mut self, error: &UnreadableRecord, message: &BorrowedMessage<'_>) {
        self.count += 1;
        self.first.get_or_insert_with(|| {
            let (partition, offset) = (message.partition(), message.offset());
            format!("{error} (partition {partition}, offset {offset})")
        });
    }

    /// Logs one line for all unreadable records: a flooded topic must not flood the log.
    pub(super) fn report(self) {
        if let Some(first) = self.first {
            counter!(RECORDS_UNREADABLE_TOTAL).increment(self.count);
            tracing::warn!(
                count = self.count,
                first,
                "the topic has records that are not events of the log"
            );
        }
    }
}
