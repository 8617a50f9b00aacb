//! The most frequent values of a dimension, and the most clicked links: what may be asked.

use std::ops::Range;

use time::{Date, Duration, OffsetDateTime};

use super::buckets::{BUCKETS_MAX, Buckets, Interval, RangeEdge, RangeError, RangeRequest, Zone};

/// Days for which values of dimensions are kept; `clicks.statistics_tables()` has the same number.
pub const VALUES_KEPT_DAYS: i64 = 396;

/// Requested range of UTC days.
#[derive(Debug, Clone, Copy, Default)]
pub struct DayRequest {
    /// Begin of the range; by default 30 days before the end.
    pub from: Option<RangeEdge>,
    /// End of the range, exclusive; by default now.
    pub to: Option<RangeEdge>,
}

impl DayRequest {
    /// Returns the UTC days of links, which are kept for ever.
    ///
    /// # Errors
    /// Returns an error if the range is empty or too long.
    pub fn days(self, now: OffsetDateTime) -> Result<Range<Date>, RangeError> {
        let request = RangeRequest {
            interval: Interval::Day,
            zone: Zone::UTC,
            from: self.from,
            to: self.to,
        };
        let buckets = Buckets::of(&request, now).map_err(|error| match error.code {
            "too_many_buckets" => RangeError {
                parameter: "from",
                code: "range_too_long",
                detail: format!("The range has more than {BUCKETS_MAX} days: choose a later from."),
            },
            _ => error,
        })?;
        Ok(buckets.days())
    }

    /// Returns the UTC days of values, which are kept for [`VALUES_KEPT_DAYS`].
    ///
    /// # Errors
    /// Returns an error if the range is empty, too long, or begins too early.
    pub fn days_of_values(self, now: OffsetDateTime) -> Result<Range<Date>, RangeError> {
        let days = self.days(now)?;
        let kept_from = now.date() - Duration::days(VALUES_KEPT_DAYS);
        if days.start < kept_from {
            return Err(RangeError {
                parameter: "from",
                code: "too_early",
                detail: format!(
                    "Values of clicks are kept for {VALUES_KEPT_DAYS} days: choose a from of {kept_from} or later."
                ),
            });
        }
        Ok(days)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::{date, datetime};

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-20 09:51 UTC);

    fn request(from: &str, to: &str) -> DayRequest {
        DayRequest {
            from: RangeEdge::parse(from),
            to: RangeEdge::parse(to),
        }
    }

    #[test]
    fn days_are_utc_days_and_snap_outward() {
        let days = request("2026-11-02T23:59:59-01:00", "2026-11-05T00:00:01Z").days(NOW);
        assert_eq!(days, Ok(date!(2026 - 11 - 03)..date!(2026 - 11 - 06)));
        let default = DayRequest::default().days(NOW);
        assert_eq!(default, Ok(date!(2026 - 10 - 22)..date!(2026 - 11 - 21)));
    }

    #[test]
    fn values_before_their_retention_are_refused() {
        let kept = request("2025-10-20", "");
        let days = kept.days_of_values(NOW).unwrap();
        assert_eq!(days.start, date!(2025 - 10 - 20));
        let early = request("2025-10-19T23:59:59Z", "");
        let error = early.days_of_values(NOW).unwrap_err();
        assert_eq!((error.parameter, error.code), ("from", "too_early"));
        assert!(error.detail.contains("2025-10-20"), "{}", error.detail);
        assert!(early.days(NOW).is_ok());
        let error = request("2023-01-01", "").days(NOW).unwrap_err();
        assert_eq!(error.code, "range_too_long");
    }
}
