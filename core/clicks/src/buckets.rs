//! Buckets of time in which clicks are shown: hours, days, weeks or months of a time zone.
//!
//! Statistics exist for slots of 15 min during [`SLOTS_KEPT_DAYS`], and for UTC days for ever. So every boundary
//! of a bucket is a boundary of slots; and before the first kept slot, a midnight of UTC.

mod grid;
mod zone;

use std::ops::Range;

use jiff::{ToSpan as _, civil};
use time::{Date, Duration, OffsetDateTime, Time};

use self::grid::Grid;
pub use self::zone::Zone;
use linkledger_core::timestamp;

/// Days for which slots of 15 min are kept; `clicks.statistics_tables()` has the same number.
pub const SLOTS_KEPT_DAYS: i64 = 90;

/// Maximum number of buckets in one answer.
pub const BUCKETS_MAX: usize = 1_000;

/// Number of days in a range without `from`.
pub const DEFAULT_DAYS: i64 = 30;

/// First and last year of a range: far more than clicks exist for, and every time zone of these years has an
/// offset of whole slots of 15 min.
const YEARS: Range<i32> = 2000..2100;

const SECONDS_PER_HOUR: i64 = 3_600;
const SECONDS_PER_DAY: i64 = 86_400;
/// Seconds from midnight to noon.
const HALF_DAY: i64 = SECONDS_PER_DAY / 2;

linkledger_core::named_enum! {
    /// Length of a bucket.
    pub enum Interval {
        /// An hour; shorter where a time zone changes its offset within the hour.
        Hour = "hour",
        /// A calendar day: 23 or 25 hours where daylight saving time begins or ends.
        Day = "day",
        /// A week from Monday.
        Week = "week",
        /// A calendar month.
        Month = "month",
    }
}

impl Interval {
    /// Returns the first date of the bucket that contains `date`.
    fn first_date(self, date: civil::Date) -> civil::Date {
        match self {
            Self::Hour | Self::Day => date,
            Self::Week => {
                let days = i64::from(date.weekday().to_monday_zero_offset());
                date.saturating_sub(days.days())
            }
            Self::Month => date.first_of_month(),
        }
    }

    /// Returns the first date of the next bucket.
    fn next(self, first: civil::Date) -> civil::Date {
        first.saturating_add(match self {
            Self::Hour | Self::Day => 1.day(),
            Self::Week => 1.week(),
            Self::Month => 1.month(),
        })
    }

    /// Returns the first date of the bucket before.
    fn previous(self, first: civil::Date) -> civil::Date {
        self.first_date(first.saturating_sub(1.day()))
    }
}

/// Begin or end of a range as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeEdge {
    /// An instant.
    Instant(OffsetDateTime),
    /// The begin of a day, in the time zone of the request.
    Date(civil::Date),
}

impl RangeEdge {
    /// Parses an instant of RFC 3339, or a date such as `2026-11-20`, of a year from 2000 to 2099.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(instant) = timestamp::parse(text) {
            return YEARS
                .contains(&instant.year())
                .then_some(Self::Instant(instant));
        }
        let has_form = text.len() == 10 && text.bytes().all(|byte| byte != b'T');
        let date: civil::Date = has_form.then(|| text.parse().ok())??;
        YEARS
            .contains(&i32::from(date.year()))
            .then_some(Self::Date(date))
    }
}

/// Requested range of buckets.
#[derive(Debug, Clone)]
pub struct RangeRequest {
    /// Length of a bucket.
    pub interval: Interval,
    /// Time zone of hours, days, weeks and months.
    pub zone: Zone,
    /// Begin of the range; by default [`DEFAULT_DAYS`] days before the end, the last day included.
    pub from: Option<RangeEdge>,
    /// End of the range, exclusive; by default now.
    pub to: Option<RangeEdge>,
}

/// Reason why a range has no statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeError {
    /// Name of the parameter to change.
    pub parameter: &'static str,
    /// Stable code of the reason.
    pub code: &'static str,
    /// Advice to the caller.
    pub detail: String,
}

/// Buckets that cover a range without holes and overlaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    interval: Interval,
    zone: Zone,
    /// Begin of each bucket and end of the last bucket, in seconds of the Unix epoch, ascending.
    boundaries: Vec<i64>,
    /// Instant from which clicks are read of slots of 15 min; before, of UTC days.
    slots_from: i64,
    /// First boundary in the time zone; `None` if all days are days of the time zone.
    local_from: Option<i64>,
    /// Second of the request.
    now: i64,
}

impl Buckets {
    /// Returns the buckets of a request: `from` and `to` snap outward to whole buckets.
    ///
    /// # Errors
    /// Returns an error if the range is empty, has more than [`BUCKETS_MAX`] buckets, or has hours of which the
    /// slots are kept no more.
    pub fn of(request: &RangeRequest, now: OffsetDateTime) -> Result<Self, RangeError> {
        let grid = Grid {
            interval: request.interval,
            zone: &request.zone,
            slots_from: slots_kept_from(now),
            now: now.unix_timestamp(),
        };
        // A fraction of a second belongs to the range.
        let to = grid.edge(
            request.to.unwrap_or(RangeEdge::Instant(now)),
            Duration::SECOND,
        );
        let from = match request.from {
            Some(from) => grid.edge(from, Duration::ZERO),
            None => grid.default_from(to),
        };
        if from >= to {
            return Err(RangeError {
                parameter: "from",
                code: "range_empty",
                detail: "The range is empty: choose a from that is before to.".to_owned(),
            });
        }
        let boundaries = match request.interval {
            Interval::Hour => grid.hours(from, to),
            Interval::Day | Interval::Week | Interval::Month => grid.dates(from, to),
        }?;
        Ok(grid.buckets(boundaries))
    }

    /// Returns the length of a bucket.
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// Returns the time zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the number of buckets.
    #[expect(clippy::len_without_is_empty, reason = "there is always a bucket")]
    pub fn len(&self) -> usize {
        self.boundaries.len() - 1
    }

    /// Returns the begin of each bucket.
    pub fn starts(&self) -> impl Iterator<Item = OffsetDateTime> {
        self.boundaries[..self.len()].iter().copied().map(instant)
    }

    /// Returns the begin of each bucket with the offset of the time zone; of UTC days, which begin at midnight of
    /// UTC, with that of UTC.
    pub fn local_starts(&self) -> impl Iterator<Item = OffsetDateTime> {
        self.starts().map(|start| {
            let is_local = self.utc_days_before().is_none_or(|end| start >= end);
            if is_local { self.zone.at(start) } else { start }
        })
    }

    /// Returns the begin of the first bucket.
    pub fn from(&self) -> OffsetDateTime {
        instant(self.boundaries[0])
    }

    /// Returns the end of the last bucket, exclusive.
    pub fn to(&self) -> OffsetDateTime {
        instant(self.boundaries[self.len()])
    }

    /// Returns the instant before which buckets begin and end with UTC days, although the request names another
    /// time zone; `None` if there are no such buckets.
    pub fn utc_days_before(&self) -> Option<OffsetDateTime> {
        self.local_from.map(instant)
    }

    /// Returns the range of slots of 15 min whose clicks are in the statistics; `None` for none.
    pub fn slots(&self) -> Option<Range<OffsetDateTime>> {
        let (from, to) = (self.boundaries[0], self.boundaries[self.len()]);
        let from = from.max(self.slots_from);
        (from < to).then(|| instant(from)..instant(to))
    }

    /// Returns the range of UTC days whose clicks or visitors are in the statistics.
    pub fn days(&self) -> Range<Date> {
        let (from, to) = (self.from(), self.to());
        from.date()..(to + Duration::DAY - Duration::SECOND).date()
    }

    /// Returns the bucket of the clicks of a slot; `None` if the clicks of its UTC day count instead.
    pub fn of_slot(&self, slot: OffsetDateTime) -> Option<usize> {
        let second = slot.unix_timestamp();
        (second >= self.slots_from)
            .then(|| self.of_second(second))
            .flatten()
    }

    /// Returns the bucket of the clicks of a UTC day; `None` if the clicks of its slots count instead.
    pub fn of_day(&self, day: Date) -> Option<usize> {
        let second = midnight(day);
        (second < self.slots_from)
            .then(|| self.of_second(second))
            .flatten()
    }

    /// Returns the place of the visitors of a UTC day. With hours, a day belongs to no bucket, and counts if the
    /// range touches the day; otherwise noon decides.
    pub fn of_visitors(&self, day: Date) -> VisitorsPlace {
        if self.interval == Interval::Hour {
            return if self.days().contains(&day) {
                VisitorsPlace::Total
            } else {
                VisitorsPlace::Outside
            };
        }
        self.of_second(midnight(day) + HALF_DAY)
            .map_or(VisitorsPlace::Outside, VisitorsPlace::Bucket)
    }

    /// Returns true for buckets with visitors: those with the noon of a UTC day that has begun, and no hours. East of UTC
    /// a day begins before its UTC day does, and would have clicks of nobody.
    pub fn have_visitors(&self) -> impl Iterator<Item = bool> {
        self.boundaries.windows(2).map(|bucket| {
            let first_day = (bucket[0] + HALF_DAY - 1).div_euclid(SECONDS_PER_DAY);
            let midnight = first_day * SECONDS_PER_DAY;
            let has_noon = midnight + HALF_DAY < bucket[1];
            self.interval != Interval::Hour && has_noon && midnight <= self.now
        })
    }

    fn of_second(&self, second: i64) -> Option<usize> {
        let after = self.boundaries.partition_point(|begin| *begin <= second);
        (1..=self.len()).contains(&after).then(|| after - 1)
    }
}

/// Place of the visitors of a UTC day in the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitorsPlace {
    /// In a bucket, and in the total.
    Bucket(usize),
    /// Only in the total.
    Total,
    /// Neither in a bucket nor in the total.
    Outside,
}

/// Returns the midnight of UTC from which all slots are kept.
fn slots_kept_from(now: OffsetDateTime) -> i64 {
    midnight(now.date()) - SLOTS_KEPT_DAYS * SECONDS_PER_DAY
}

fn midnight(day: Date) -> i64 {
    day.with_time(Time::MIDNIGHT).assume_utc().unix_timestamp()
}

fn instant(second: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(second).expect("years of ranges have four digits")
}

#[cfg(test)]
mod tests;
