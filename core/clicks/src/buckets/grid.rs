//! Boundaries of buckets: instants at which an hour, day, week or month of a time zone begins.

use jiff::{ToSpan as _, civil};
use time::Duration;

use super::{
    BUCKETS_MAX, Buckets, DEFAULT_DAYS, Interval, RangeEdge, RangeError, SLOTS_KEPT_DAYS, Zone,
    instant,
};
use linkledger_core::timestamp;

/// All boundaries of an interval in a time zone.
pub(super) struct Grid<'a> {
    pub(super) interval: Interval,
    pub(super) zone: &'a Zone,
    pub(super) slots_from: i64,
    pub(super) now: i64,
}

impl Grid<'_> {
    /// Returns the buckets between the boundaries.
    pub(super) fn buckets(&self, boundaries: Vec<i64>) -> Buckets {
        let (first, end) = (boundaries[0], boundaries[boundaries.len() - 1]);
        let is_utc = self.zone.is_utc() && self.interval != Interval::Hour;
        // In UTC days are days, so that slots are needed for hours only.
        let slots_from = if is_utc { end } else { self.slots_from };
        let is_local = |boundary: &i64| self.is_local(*boundary);
        let local_from = boundaries.iter().copied().find(is_local).unwrap_or(end);
        Buckets {
            interval: self.interval,
            zone: self.zone.clone(),
            local_from: (!is_utc && local_from > first).then_some(local_from),
            boundaries,
            slots_from,
            now: self.now,
        }
    }

    /// Returns true for a boundary in the time zone, and false for a midnight of UTC instead.
    fn is_local(&self, boundary: i64) -> bool {
        if self.interval == Interval::Hour {
            return true;
        }
        let date = self.zone.date(boundary);
        boundary >= self.slots_from && self.zone.start_of_day(date) == boundary
    }

    /// Returns the begin of a date in the time zone, or in UTC if the slots there are kept no more.
    fn begin(&self, date: civil::Date) -> i64 {
        let local = self.zone.start_of_day(date);
        if local >= self.slots_from || self.interval == Interval::Hour {
            local
        } else {
            Zone::UTC.start_of_day(date)
        }
    }

    /// Returns the second of an edge; an instant between two seconds is rounded up by `rounding`.
    pub(super) fn edge(&self, edge: RangeEdge, rounding: Duration) -> i64 {
        match edge {
            RangeEdge::Instant(instant) if instant.nanosecond() == 0 => instant.unix_timestamp(),
            RangeEdge::Instant(instant) => (instant + rounding).unix_timestamp(),
            RangeEdge::Date(date) => self.begin(date),
        }
    }

    /// Returns the begin of the last [`DEFAULT_DAYS`] days before `to`.
    pub(super) fn default_from(&self, to: i64) -> i64 {
        let last = self.zone.date(to - 1);
        self.begin(last.saturating_sub((DEFAULT_DAYS - 1).days()))
    }

    /// Returns the boundaries of days, weeks or months that cover the range.
    pub(super) fn dates(&self, from: i64, to: i64) -> Result<Vec<i64>, RangeError> {
        let mut date = self.interval.first_date(Zone::UTC.date(from));
        // A time zone is up to 14 hours away from UTC.
        date = self.interval.next(date);
        while self.begin(date) > from {
            date = self.interval.previous(date);
        }
        let mut boundaries = vec![self.begin(date)];
        self.extend(&mut boundaries, to, |last| {
            loop {
                date = self.interval.next(date);
                // A date that a time zone has skipped begins with the next date.
                let begin = self.begin(date);
                if begin > last {
                    return begin;
                }
            }
        })?;
        Ok(boundaries)
    }

    /// Returns the boundaries of hours that cover the range.
    pub(super) fn hours(&self, from: i64, to: i64) -> Result<Vec<i64>, RangeError> {
        let first = self.zone.start_of_hour(from);
        if first < self.slots_from {
            let earliest = self.zone.end_of_hour(self.slots_from - 1);
            return Err(RangeError {
                parameter: "from",
                code: "too_early",
                detail: format!(
                    "Clicks of hours are kept for {SLOTS_KEPT_DAYS} days: choose a from of {} or later, or \
                     another interval.",
                    timestamp::format(instant(earliest))
                ),
            });
        }
        let mut boundaries = vec![first];
        self.extend(&mut boundaries, to, |last| self.zone.end_of_hour(last))?;
        Ok(boundaries)
    }

    /// Adds boundaries until one is not before `to`.
    fn extend(
        &self,
        boundaries: &mut Vec<i64>,
        to: i64,
        mut next: impl FnMut(i64) -> i64,
    ) -> Result<(), RangeError> {
        let mut last = boundaries[0];
        while last < to {
            last = next(last);
            boundaries.push(last);
            if boundaries.len() > BUCKETS_MAX + 1 {
                return Err(RangeError {
                    parameter: "interval",
                    code: "too_many_buckets",
                    detail: format!(
                        "The range has more than {BUCKETS_MAX} buckets of one {}: choose a shorter range, or a \
                         longer interval.",
                        self.interval.name()
                    ),
                });
            }
        }
        Ok(())
    }
}
