//! The filters `created_from` and `created_to`. An id of a link begins with the milliseconds of its creation, so both
//! filters are bounds of ids.

use linkledger_core::timestamp;
use time::{Duration, OffsetDateTime};

use crate::parameters::{ParameterError, Parameters, parse_instant};

pub(super) const CREATED_FROM: &str = "created_from";
pub(super) const CREATED_TO: &str = "created_to";

/// Years whose instants are accepted: the ids of all links are of these years.
const LAST_YEAR: i32 = 2099;

/// First millisecond of a creation that is not before a given instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CreatedBound(OffsetDateTime);

impl CreatedBound {
    /// Takes both bounds from the parameters, which record invalid instants and an empty range.
    pub(super) fn take(parameters: &mut Parameters) -> (Option<Self>, Option<Self>) {
        let from = parameters.take(CREATED_FROM, |text| Self::parse(CREATED_FROM, text));
        let to = parameters.take(CREATED_TO, |text| {
            let to = Self::parse(CREATED_TO, text)?;
            if from.is_some_and(|from| from >= to) {
                let detail =
                    format!("The range is empty: {CREATED_TO} must be after {CREATED_FROM}.");
                return Err(ParameterError::new("range_empty", detail));
            }
            Ok(to)
        });
        (from, to)
    }

    fn parse(name: &str, text: &str) -> Result<Self, ParameterError> {
        parse_instant(name, text).map(Self::of)
    }

    fn of(instant: OffsetDateTime) -> Self {
        let millisecond = linkledger_core::clock::to_millisecond(instant);
        if millisecond == instant {
            return Self(instant);
        }
        let next = millisecond + Duration::MILLISECOND;
        // The address of the next page must be accepted again.
        Self(if next.year() > LAST_YEAR {
            millisecond
        } else {
            next
        })
    }

    /// Returns the lowest id of a link that was created at this millisecond or later.
    pub(super) fn lowest_id(self) -> u128 {
        let milliseconds = self.0.unix_timestamp_nanos() / 1_000_000;
        u128::try_from(milliseconds).expect("the year is after 1999") << 80
    }

    /// Returns the instant as text; equal for equal bounds, however spelled.
    pub(super) fn text(self) -> String {
        timestamp::format(self.0)
    }
}

#[cfg(test)]
mod tests {
    use linkledger_core::clock::new_uuid;
    use time::macros::datetime;

    use super::*;

    fn bound(text: &str) -> CreatedBound {
        CreatedBound::parse(CREATED_FROM, text).unwrap()
    }

    #[test]
    fn bounds_are_whole_milliseconds() {
        for (text, millisecond) in [
            ("2026-11-20T09:51:00.123Z", "2026-11-20T09:51:00.123Z"),
            (
                "2026-11-20T10:51:00.1230001+01:00",
                "2026-11-20T09:51:00.124Z",
            ),
            ("2026-11-20", "2026-11-20T00:00:00.000Z"),
            ("2099-12-31T23:59:59.9999Z", "2099-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(bound(text).text(), millisecond, "{text}");
            assert_eq!(bound(millisecond), bound(text), "{text}");
        }
        for text in [
            "",
            "now",
            "2026-11-20T09:51:00",
            "2026-13-01",
            "1999-12-31T23:59:59Z",
            "2100-01-01",
            "1795168260000",
            "2026-11-20 09:51:00Z\0",
            "+2026-11-20",
            "-2026-11-20",
        ] {
            assert!(CreatedBound::parse(CREATED_FROM, text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn lowest_id_separates_milliseconds() {
        let instant = datetime!(2026-11-20 09:51:00.123 UTC);
        let lowest = CreatedBound::of(instant).lowest_id();
        assert!(new_uuid(instant).as_u128() > lowest);
        assert!(new_uuid(instant - Duration::MILLISECOND).as_u128() < lowest);
    }
}
