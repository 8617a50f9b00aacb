//! From a record of the topic to the event that it carries.

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

/// Why a record says nothing to us.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableRecord {
    /// Its headers are not those of an event.
    #[error(transparent)]
    Headers(#[from] RecordError),
    /// No value, or not text.
    #[error("the record's value is not text")]
    Value,
    /// Whoever wrote it computes shards in another way.
    #[error("the record's account does not belong to this partition")]
    Partition,
}

/// The event of a record of `shard`'s partition.
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

/// Records that are treated as absent; what they may have been is read from the event store.
#[derive(Default)]
pub(super) struct Unreadable {
    count: u64,
    first: Option<String>,
}

impl Unreadable {
    pub(super) fn add(&mut self, error: &UnreadableRecord, message: &BorrowedMessage<'_>) {
        self.count += 1;
        self.first.get_or_insert_with(|| {
            let (partition, offset) = (message.partition(), message.offset());
            format!("{error} (partition {partition}, offset {offset})")
        });
    }

    /// One line for all of them: whoever floods the topic must not flood the log too.
    pub(super) fn report(self) {
        if let Some(first) = self.first {
            counter!(RECORDS_UNREADABLE_TOTAL).increment(self.count);
            tracing::warn!(
                count = self.count,
                first,
                "records that are no events of ours"
            );
        }
    }
}
