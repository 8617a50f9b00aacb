//! Tally of the records of one partition: which clicks count, and the rows of statistics that they add up to.
//!
//! Pure. A record counts once: a sequence up to the counted one of its recorder is a repeat. Whatever value
//! a record of a recorder has, its sequence advances: a click that cannot be counted is never taken for a lost one.

mod retention;
mod sequences;
mod totals;
mod values;

#[cfg(test)]
mod tests;

use time::{Duration, OffsetDateTime, UtcOffset};

pub use self::{
    sequences::{SequenceChange, Sequences},
    totals::{DayCount, KindCount, Totals},
    values::{ValueCount, ValueRow, Values},
};
use super::{Click, RecorderId};

/// Age of the oldest click that is counted.
pub const AGE_MAX: Duration = Duration::days(800);
/// Age of the oldest click that is counted by minute, for webhooks.
const MINUTES_AGE_MAX: Duration = Duration::hours(1);
/// Longest time by which a recorder's clock may be ahead.
const AHEAD_MAX: Duration = Duration::days(1);

/// A record of a partition, as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRecord {
    /// Place in the partition.
    pub offset: i64,
    /// Header `ce_id`; `None` if the record has none.
    pub record_id: Option<Box<str>>,
    /// Recorder and sequence; `None` if the headers cannot be read.
    pub place: Option<(RecorderId, u64)>,
    /// The click; `None` if the record cannot be read.
    pub click: Option<Click>,
}

impl PartitionRecord {
    /// Returns true if the instant of a click is plausible at `now`.
    pub fn is_plausible(click: &Click, now: OffsetDateTime) -> bool {
        (now - AGE_MAX..=now + AHEAD_MAX).contains(&click.clicked_at)
    }
}

/// Bounds of a tally. The first record is always taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TallyLimits {
    /// Maximum number of records.
    pub records_max: usize,
    /// Number of rows from which on no further record is taken.
    pub rows_max: usize,
}

/// Rows of statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Rows of slots, days and minutes.
    pub totals: Totals,
    /// Rows of dimensions.
    pub values: Values,
}

impl Statistics {
    fn add(&mut self, click: &Click, now: OffsetDateTime) {
        let today = now.to_offset(UtcOffset::UTC).date();
        self.totals.add(click, today);
        if now - click.clicked_at <= MINUTES_AGE_MAX {
            self.totals.add_minute(click);
        }
        self.values.add(click, today);
    }

    fn rows(&self) -> usize {
        self.totals.rows() + self.values.rows()
    }
}

/// Statistics of the first records of a partition that are not counted yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Number of records taken.
    pub records: usize,
    /// Offset after the last record taken.
    pub next_offset: i64,
    /// Header `ce_id` of the last record taken.
    pub last_record_id: Option<Box<str>>,
    /// Number of records that cannot be counted.
    pub unreadable: u64,
    /// Sequences of the recorders, after the records.
    pub sequences: Sequences,
    /// Rows of the clicks.
    pub statistics: Statistics,
}

impl Tally {
    /// Returns the tally of the first of these records, within the limits. `sequences` are the counted ones of
    /// the recorders; `now` is the instant of the count.
    pub fn of<'a>(
        records: impl IntoIterator<Item = &'a PartitionRecord>,
        sequences: Sequences,
        now: OffsetDateTime,
        limits: TallyLimits,
    ) -> Self {
        let mut tally = Self {
            records: 0,
            next_offset: 0,
            last_record_id: None,
            unreadable: 0,
            sequences,
            statistics: Statistics::default(),
        };
        for record in records.into_iter().take(limits.records_max.max(1)) {
            if tally.records > 0 && tally.statistics.rows() >= limits.rows_max {
                break;
            }
            tally.take(record, now);
        }
        tally
    }

    fn take(&mut self, record: &PartitionRecord, now: OffsetDateTime) {
        self.records += 1;
        self.next_offset = record.offset + 1;
        self.last_record_id.clone_from(&record.record_id);
        if let Some((recorder_id, sequence)) = record.place
            && !self.sequences.advance(recorder_id, sequence)
        {
            return;
        }
        match &record.click {
            Some(click) if PartitionRecord::is_plausible(click, now) => {
                self.statistics.add(click, now);
            }
            _ => self.unreadable += 1,
        }
    }
}
