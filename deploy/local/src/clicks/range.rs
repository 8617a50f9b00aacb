//! Ranges of time: the default of hours, and the line above a ranking. No I/O.

use linkledger_clicks::{buckets::RangeEdge, top::DayRequest};
use linkledger_core::timestamp;
use time::{Duration, OffsetDateTime};

/// Number of hours in a range of hours without `--from`: more fill many screens.
const DEFAULT_HOURS: i64 = 48;

/// Returns an instant in the first of the [`DEFAULT_HOURS`] that end with the hour of `to`. A date is a day of the
/// requested time zone, and gets the service's default.
pub(super) fn from_of_hours(to: Option<&str>, now: OffsetDateTime) -> Option<String> {
    let end = match to {
        None => now,
        Some(to) => timestamp::parse(to)?,
    };
    // The end is exclusive: an end at a full hour belongs to the hour before.
    let in_last_hour = end.checked_sub(Duration::NANOSECOND)?;
    let in_first_hour = in_last_hour.checked_sub(Duration::hours(DEFAULT_HOURS - 1))?;
    Some(timestamp::format(in_first_hour))
}

/// Returns the line that names the UTC days of a ranking; `None` if the texts are no range.
pub(super) fn of_utc_days(
    from: Option<&str>,
    to: Option<&str>,
    now: OffsetDateTime,
) -> Option<String> {
    let edge = |text: Option<&str>| match text {
        None => Some(None),
        Some(text) => RangeEdge::parse(text).map(Some),
    };
    let request = DayRequest {
        from: edge(from)?,
        to: edge(to)?,
    };
    let days = request.days(now).ok()?;
    let last = days.end.previous_day()?;
    Some(format!("UTC days {} to {last}\n", days.start))
}

#[cfg(test)]
mod tests {
    use linkledger_clicks::buckets::{Buckets, Interval, RangeRequest, Zone};
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-20 09:51 UTC);

    #[test]
    fn hours_without_begin_are_the_last_48() {
        for to in [
            None,
            Some("2026-11-10T00:00:00Z"),
            Some("2026-11-10T00:00:00.0004Z"),
            Some("2026-11-10T00:59:59Z"),
        ] {
            let from = from_of_hours(to, NOW).unwrap();
            let request = RangeRequest {
                interval: Interval::Hour,
                zone: Zone::UTC,
                from: RangeEdge::parse(&from),
                to: to.and_then(RangeEdge::parse),
            };
            let hours = Buckets::of(&request, NOW).unwrap();
            assert_eq!(hours.len(), 48, "{to:?}");
        }
        assert_eq!(from_of_hours(Some("2026-11-10"), NOW), None);
    }

    #[test]
    fn ranking_names_first_and_last_day() {
        let days = |from, to| of_utc_days(from, to, NOW);
        let line = days(None, None);
        assert_eq!(line.as_deref(), Some("UTC days 2026-10-22 to 2026-11-20\n"));
        let line = days(Some("2026-11-01"), Some("2026-11-03"));
        assert_eq!(line.as_deref(), Some("UTC days 2026-11-01 to 2026-11-02\n"));
        assert_eq!(days(Some("yesterday"), None), None);
    }
}
