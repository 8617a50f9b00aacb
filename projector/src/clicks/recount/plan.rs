//! Plan of a recount: the records of each partition that were counted, and may hold clicks of the days.

use std::collections::BTreeMap;

use anyhow::bail;
use linkledger_clicks::{CLICK_PARTITIONS, tally::AGE_MAX};
use linkledger_core::timestamp;
use time::{Date, Duration, OffsetDateTime, UtcOffset};

use super::{RecountScope, topic::TopicReader};
use crate::clicks::{position::AggregationPosition, topic_ends::PartitionEnds};

/// Longest time by which a click may be later than its record: the clocks of recorders and brokers differ.
const AHEAD_MAX: Duration = Duration::days(1);

/// Records of a partition, to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartitionRange {
    pub(super) partition: u8,
    /// Offset of the first record.
    pub(super) begin: i64,
    /// Offset after the last counted record.
    pub(super) next_offset: i64,
    /// Offset after the last record of the topic.
    pub(super) topic_end: i64,
}

/// Reason why statistics cannot be counted again from the topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecountRefusal {
    /// The topic is not the one that was counted.
    #[error(
        "the topic is another one than partition {partition} was counted from: check \
         --kafka-brokers and --kafka-clicks-topic; or, if the topic is new, let projector count it first, for \
         which the partition needs a record. The embedded broker of a local stack forgets its records when it \
         stops: clicks from before cannot be counted again, except from an archive \
         (docs/clicks-operation.md#count-again)"
    )]
    OtherTopic {
        /// Partition of the topic.
        partition: u8,
    },
    /// The topic is not counted up to clicks that were counted from an earlier topic.
    #[error(
        "partition {partition} of the topic is not counted up to clicks that were counted from an earlier \
         topic: let projector read the topic to its end first"
    )]
    Unread {
        /// Partition of the topic.
        partition: u8,
    },
    /// The first clicks of the days would be too old to be counted.
    #[error(
        "clicks before {first} are too old to be counted again: choose --from {first} or later"
    )]
    TooOld {
        /// First day whose clicks are all counted.
        first: Date,
    },
    /// Another recount is in progress.
    #[error("another recount is in progress: wait until it has ended")]
    InProgress,
    /// Retention has removed records that may hold clicks of the days.
    #[error(
        "partition {partition} of the topic lacks its first records, and {begins}: choose a later \
         --from, publish your archive on a new topic \
         (docs/clicks-operation.md#count-again), or lose those clicks with --accept-fewer"
    )]
    Expired {
        /// Partition of the topic.
        partition: u8,
        /// Instant of the first record, in words.
        begins: String,
    },
    /// The new statistics would have fewer clicks.
    #[error(
        "partition {partition} of the topic has {after} clicks since {from}, and the statistics have {before}: \
         the topic lacks records, or the statistics had too many; --accept-fewer replaces them"
    )]
    Fewer {
        /// Partition of the topic.
        partition: i16,
        /// First day.
        from: Date,
        /// Clicks of the statistics.
        before: i64,
        /// Clicks of the topic.
        after: i64,
    },
}

impl PartitionRange {
    /// Returns the number of counted records.
    pub(super) fn records(&self) -> u64 {
        u64::try_from(self.next_offset - self.begin).unwrap_or(0)
    }
}

/// Ensures that every click of the days is young enough to be counted.
pub(super) fn ensure_countable(from: Date, now: OffsetDateTime) -> Result<(), RecountRefusal> {
    let oldest = (now - AGE_MAX).to_offset(UtcOffset::UTC);
    if from.midnight().assume_utc() >= oldest {
        return Ok(());
    }
    let first = oldest.date() + Duration::DAY;
    Err(RecountRefusal::TooOld { first })
}

/// Returns the plan, once the topic is known to be the counted one, and to have all records of the days.
pub(super) async fn plan(
    reader: &TopicReader,
    positions: &BTreeMap<u8, AggregationPosition>,
    scope: RecountScope,
) -> anyhow::Result<Vec<PartitionRange>> {
    let since = scope.from.midnight().assume_utc() - AHEAD_MAX;
    let ends = reader.ends().await?;
    let firsts = reader.first_offsets_since(since).await?;
    let mut ranges = Vec::new();
    for partition in 0..CLICK_PARTITIONS {
        let Some(counted) = positions.get(&partition).filter(|it| it.next_offset > 0) else {
            continue;
        };
        let ends = ends[&partition];
        ensure_counted(reader, partition, ends, counted).await?;
        // The last batch was before the days: none of their clicks was counted.
        if counted.counted_at.is_none_or(|at| at < since) {
            continue;
        }
        if !scope.accepts_fewer {
            ensure_unexpired(reader, partition, ends, scope.from).await?;
        }
        // The embedded broker finds no offset by time.
        let first = firsts.get(&partition).copied().unwrap_or(ends.begin);
        let range = PartitionRange {
            partition,
            begin: first.max(ends.begin),
            next_offset: counted.next_offset,
            topic_end: ends.end,
        };
        ranges.extend(Some(range).filter(|range| range.begin < range.topic_end));
    }
    Ok(ranges)
}

/// Ensures that the topic has the last counted record, unless the record has expired.
async fn ensure_counted(
    reader: &TopicReader,
    partition: u8,
    ends: PartitionEnds,
    counted: &AggregationPosition,
) -> anyhow::Result<()> {
    if ends.end < counted.next_offset {
        bail!(RecountRefusal::OtherTopic { partition });
    }
    let offset = counted.next_offset - 1;
    if offset < ends.begin {
        return Ok(());
    }
    let found = reader.first_from(partition, offset).await?;
    // A later record is found if the last counted one has expired meanwhile.
    let last = found.map(|found| found.record);
    let last = last.filter(|last| last.offset == offset);
    if last.is_some_and(|last| last.record_id.as_deref() != counted.last_record_id.as_deref()) {
        bail!(RecountRefusal::OtherTopic { partition });
    }
    Ok(())
}

/// Ensures that the topic has removed no record of the days.
async fn ensure_unexpired(
    reader: &TopicReader,
    partition: u8,
    ends: PartitionEnds,
    from: Date,
) -> anyhow::Result<()> {
    if ends.begin == 0 {
        return Ok(());
    }
    let first = reader.first_from(partition, ends.begin).await?;
    let at = first.and_then(|first| first.at);
    if at.is_some_and(|at| at < from.midnight().assume_utc()) {
        return Ok(());
    }
    let begins = match at {
        Some(at) => format!("begins with {}", timestamp::format(at)),
        None => "has none any more".to_owned(),
    };
    bail!(RecountRefusal::Expired { partition, begins })
}
