//! State of a partition that the process counts: position, check of the topic, records that wait.

use std::{collections::VecDeque, time::Duration};

use linkledger_clicks::tally::{PartitionRecord, Tally, TallyLimits};
use rdkafka::Offset;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{position::AggregationPosition, topic_ends::PartitionEnds};
use crate::pipeline::retry::Backoff;

/// Bounds of a transaction: it stays below the timeout of a statement, and below the memory of a batch.
pub(super) const LIMITS_MAX: TallyLimits = TallyLimits {
    records_max: 20_000,
    rows_max: 10_000,
};

/// A partition that the process counts.
pub(super) struct ClaimedPartition {
    /// Position as stored, except for the instant of the last batch.
    pub(super) position: AggregationPosition,
    /// Offset up to which every record is counted, in the topic that exists now; `position` may still be
    /// that of a deleted topic.
    pub(super) counted: i64,
    /// Offset at which the record before the position is expected; `None` once the topic is known to be the one
    /// of the position.
    expected_at: Option<i64>,
    /// True if the topic is another one: its partition must be counted from the beginning.
    pub(super) is_of_other_topic: bool,
    pub(super) queue: VecDeque<PartitionRecord>,
    /// Arrival of the first record of the queue.
    waiting_since: Instant,
    pub(super) limits: TallyLimits,
    backoff: Backoff,
    retry_at: Option<Instant>,
    pub(super) is_fetch_paused: bool,
    /// End of the partition as the broker answered, and the instant of the request; `None` once `counted`
    /// has reached the end.
    end: Option<(i64, OffsetDateTime)>,
    /// Instant of the latest such end that was reached: every record published before the instant is
    /// counted. Waits to be stored in `clicks.positions`.
    pub(super) read_to_end_at: Option<OffsetDateTime>,
    /// Records that are not counted yet.
    pub(super) lag: u64,
}

impl ClaimedPartition {
    /// Returns the state at a stored position.
    pub(super) fn at(position: AggregationPosition) -> Self {
        Self {
            counted: position.next_offset,
            expected_at: (position.next_offset > 0).then_some(position.next_offset - 1),
            position,
            is_of_other_topic: false,
            queue: VecDeque::new(),
            waiting_since: Instant::now(),
            limits: LIMITS_MAX,
            backoff: Backoff::default(),
            retry_at: None,
            is_fetch_paused: false,
            end: None,
            read_to_end_at: None,
            lag: 0,
        }
    }

    /// Returns the offset at which the fetch begins: at the record before the position.
    pub(super) fn fetched_from(&self) -> Offset {
        match self.expected_at {
            Some(offset) => Offset::Offset(offset),
            None if self.counted == 0 => Offset::Beginning,
            None => Offset::Offset(self.counted),
        }
    }

    /// Begins at the beginning of another topic. The stored position stays until the first batch.
    pub(super) fn restart(&mut self) {
        self.is_of_other_topic = false;
        self.expected_at = None;
        self.counted = 0;
        self.queue.clear();
        self.end = None;
        self.is_fetch_paused = false;
    }

    /// Takes a received record.
    pub(super) fn receive(&mut self, record: PartitionRecord) {
        if self.is_of_other_topic {
            // The rest of the delivery is older than the fetch that begins then.
            return;
        }
        if let Some(offset) = self.expected_at {
            self.is_of_other_topic = record.offset < offset
                || record.offset == offset
                    && record.record_id.as_deref() != self.position.last_record_id.as_deref();
            if self.is_of_other_topic {
                return;
            }
            self.expected_at = None;
            if record.offset == offset {
                return;
            }
        }
        if self.queue.is_empty() {
            self.waiting_since = Instant::now();
        }
        self.queue.push_back(record);
    }

    /// Takes the ends of the partition. `counted` is the counted offset of before the request.
    pub(super) fn measure(&mut self, ends: PartitionEnds, counted: i64, at: OffsetDateTime) {
        if ends.end < counted.min(self.counted) {
            self.is_of_other_topic = true;
            return;
        }
        self.lag = u64::try_from(ends.end - self.counted.max(ends.begin)).unwrap_or(0);
        if let Some(offset) = self.expected_at {
            if ends.begin <= offset {
                return;
            }
            // The record before the position has expired, so nothing speaks for another topic.
            self.expected_at = None;
        }
        if self.queue.is_empty() {
            // Records before the begin have expired.
            self.counted = self.counted.max(ends.begin);
        }
        if self.end.is_none() {
            self.end = Some((ends.end, at));
        }
        self.reach_end();
    }

    /// Returns true if the partition is counted up to the offset.
    pub(super) fn has_counted_to(&self, end: i64) -> bool {
        self.expected_at.is_none() && self.counted >= end
    }

    fn reach_end(&mut self) {
        if let Some((end, at)) = self.end
            && self.has_counted_to(end)
        {
            self.end = None;
            self.read_to_end_at = Some(at);
        }
    }

    /// Returns the instant of the next batch; `None` if no record waits.
    pub(super) fn due_at(&self, interval: Duration) -> Option<Instant> {
        if self.queue.is_empty() {
            return None;
        }
        let is_full = self.queue.len() >= LIMITS_MAX.records_max;
        let due = self.waiting_since + if is_full { Duration::ZERO } else { interval };
        Some(self.retry_at.map_or(due, |retry_at| retry_at.max(due)))
    }

    /// Records a counted batch: drops its records from the queue, and widens the limits.
    pub(super) fn complete(&mut self, tally: &Tally) {
        self.queue.drain(..tally.records);
        self.position.next_offset = tally.next_offset;
        self.position.last_record_id = tally.last_record_id.as_deref().map(str::to_owned);
        self.counted = tally.next_offset;
        self.lag = self.lag.saturating_sub(tally.records as u64);
        self.limits = widened(self.limits);
        self.backoff.reset();
        self.retry_at = None;
        self.reach_end();
    }

    /// Returns the number of records that the next batch tries.
    pub(super) fn attempted(&self) -> usize {
        self.queue.len().min(self.limits.records_max)
    }

    /// Halves the next batch.
    pub(super) fn halve(&mut self) {
        self.limits = TallyLimits {
            records_max: (self.attempted() / 2).max(1),
            rows_max: (self.limits.rows_max / 2).max(1),
        };
    }

    /// Delays the next batch.
    pub(super) fn back_off(&mut self) {
        self.retry_at = Some(Instant::now() + self.backoff.next_delay());
    }
}

/// Returns the limits of the batch after one that was counted.
pub(super) fn widened(limits: TallyLimits) -> TallyLimits {
    TallyLimits {
        records_max: (limits.records_max * 2).min(LIMITS_MAX.records_max),
        rows_max: (limits.rows_max * 2).min(LIMITS_MAX.rows_max),
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const AT: OffsetDateTime = datetime!(2026-11-23 09:51:00 UTC);

    fn record(offset: i64, id: &str) -> PartitionRecord {
        PartitionRecord {
            offset,
            record_id: Some(id.into()),
            place: None,
            click: None,
        }
    }

    fn partition_at(next_offset: i64) -> ClaimedPartition {
        ClaimedPartition::at(AggregationPosition {
            next_offset,
            last_record_id: (next_offset > 0).then(|| "last".to_owned()),
            counted_at: None,
            paused_at: None,
        })
    }

    #[tokio::test]
    async fn same_topic_continues_after_last_record() {
        let mut partition = partition_at(8);
        assert_eq!(partition.fetched_from(), Offset::Offset(7));
        partition.receive(record(7, "last"));
        assert!(!partition.is_of_other_topic);
        partition.receive(record(8, "next"));
        assert!(!partition.is_of_other_topic);
        assert_eq!(partition.queue.len(), 1);
    }

    #[tokio::test]
    async fn other_record_before_position_is_other_topic() {
        for other in [record(7, "other"), record(0, "last"), record(6, "last")] {
            let mut partition = partition_at(8);
            partition.receive(other);
            assert!(partition.is_of_other_topic);
            partition.restart();
            assert_eq!(partition.fetched_from(), Offset::Beginning);
            partition.receive(record(0, "first"));
            assert!(!partition.is_of_other_topic);
            assert_eq!(partition.queue.len(), 1);
        }
    }

    #[tokio::test]
    async fn expired_last_record_is_no_other_topic() {
        let mut partition = partition_at(8);
        partition.receive(record(30, "next"));
        assert!(!partition.is_of_other_topic);
        assert_eq!(partition.queue.len(), 1);
        // Nothing arrives, because everything has expired.
        let mut partition = partition_at(8);
        let ends = PartitionEnds { begin: 8, end: 8 };
        partition.measure(ends, 8, AT);
        assert!(!partition.is_of_other_topic);
        assert_eq!(partition.read_to_end_at, Some(AT));
    }

    #[tokio::test]
    async fn end_before_position_is_other_topic() {
        let mut partition = partition_at(8);
        let ends = PartitionEnds { begin: 0, end: 7 };
        partition.measure(ends, 8, AT);
        assert!(partition.is_of_other_topic);
        // An answer to a request from before the last batch says nothing.
        let mut partition = partition_at(8);
        partition.measure(ends, 6, AT);
        assert!(!partition.is_of_other_topic);
        assert_eq!(partition.read_to_end_at, None);
    }

    #[tokio::test]
    async fn unchecked_topic_is_not_read_to_its_end() {
        let mut partition = partition_at(8);
        let ends = PartitionEnds { begin: 0, end: 8 };
        partition.measure(ends, 8, AT);
        assert!(!partition.is_of_other_topic);
        assert_eq!(partition.read_to_end_at, None);
        partition.receive(record(7, "last"));
        assert!(!partition.is_of_other_topic);
        partition.measure(ends, 8, AT);
        assert!(!partition.is_of_other_topic);
        assert_eq!(partition.read_to_end_at, Some(AT));
    }
}
