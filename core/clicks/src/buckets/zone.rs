//! Time zones: dates and hours of an IANA time zone as instants, in seconds of the Unix epoch.

use jiff::{
    Timestamp,
    civil::Date,
    tz::{self, TimeZone},
};
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::SECONDS_PER_HOUR;

/// An IANA time zone, of the database in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// Returns the time zone with this name, such as `Europe/Berlin`. Letter case is ignored.
    pub fn of_name(name: &str) -> Option<Self> {
        let zone = tz::db().get(name).ok()?;
        (!zone.is_unknown()).then_some(Self(zone))
    }

    /// Returns the IANA name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns date and time of an instant in the time zone.
    pub fn local(&self, instant: OffsetDateTime) -> PrimitiveDateTime {
        let local = self.at(instant);
        PrimitiveDateTime::new(local.date(), local.time())
    }

    /// Returns the instant with the offset of the time zone; in UTC if there is none for a year of four digits.
    pub(super) fn at(&self, instant: OffsetDateTime) -> OffsetDateTime {
        let offset = self.0.to_offset(timestamp(instant.unix_timestamp()));
        let offset = UtcOffset::from_whole_seconds(offset.seconds()).unwrap_or(UtcOffset::UTC);
        instant.checked_to_offset(offset).unwrap_or(instant)
    }

    /// Returns true for UTC itself.
    pub(super) fn is_utc(&self) -> bool {
        *self == Self::UTC
    }

    /// Returns the local date of an instant.
    pub(super) fn date(&self, second: i64) -> Date {
        self.0.to_datetime(timestamp(second)).date()
    }

    /// Returns the first instant of a date. A date that the time zone has skipped begins with the next date.
    pub(super) fn start_of_day(&self, date: Date) -> i64 {
        let midnight = self.0.to_ambiguous_timestamp(date.at(0, 0, 0, 0));
        midnight
            .compatible()
            .expect("years of ranges are far from the limits of time")
            .as_second()
    }

    /// Returns the begin of the local hour of an instant. A change of the offset begins an hour too.
    pub(super) fn start_of_hour(&self, second: i64) -> i64 {
        let start = second - self.second_of_hour(second);
        let change = self.0.preceding(timestamp(second + 1)).next();
        change.map_or(start, |change| start.max(change.timestamp().as_second()))
    }

    /// Returns the end of the local hour of an instant. A change of the offset ends an hour too.
    pub(super) fn end_of_hour(&self, second: i64) -> i64 {
        let end = second - self.second_of_hour(second) + SECONDS_PER_HOUR;
        let change = self.0.following(timestamp(second)).next();
        change.map_or(end, |change| end.min(change.timestamp().as_second()))
    }

    fn second_of_hour(&self, second: i64) -> i64 {
        let offset = i64::from(self.0.to_offset(timestamp(second)).seconds());
        (second + offset).rem_euclid(SECONDS_PER_HOUR)
    }
}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("years of ranges are far from the limits of time")
}
