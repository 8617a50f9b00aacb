//! Format of instants in HTTP and on Kafka: RFC 3339, UTC, `Z`, milliseconds.

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de};
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// Length of an instant to the second, without an offset.
const SECONDS_LENGTH: usize = "2026-11-20T09:51:00".len();

/// Formats an instant, such as `2026-11-20T09:51:00.123Z`.
pub fn format(instant: OffsetDateTime) -> String {
    let instant = instant.to_offset(UtcOffset::UTC);
    let (year, month, day) = instant.to_calendar_date();
    let (hour, minute, second, millisecond) = instant.to_hms_milli();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    // Written by hand: a list formats a hundred instants, and the generic formatter takes ten times
    // as long.
    let mut write = |place: usize, length: usize, number: u32| {
        let mut rest = number;
        for digit in text[place..place + length].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
        }
    };
    write(0, 4, year.unsigned_abs());
    write(5, 2, u8::from(month).into());
    write(8, 2, day.into());
    write(11, 2, hour.into());
    write(14, 2, minute.into());
    write(17, 2, second.into());
    write(20, 3, millisecond.into());
    String::from_utf8(text.to_vec()).expect("digits and signs")
}

/// Formats an instant with its offset, to the second, such as `2026-11-20T10:00:00+01:00`; `Z` in UTC.
pub fn format_local(instant: OffsetDateTime) -> String {
    let utc = format(instant.replace_offset(UtcOffset::UTC));
    let (hours, minutes, _) = instant.offset().as_hms();
    let offset = if instant.offset().is_utc() {
        "Z".to_owned()
    } else {
        let sign = if instant.offset().is_negative() {
            '-'
        } else {
            '+'
        };
        format!(
            "{sign}{:02}:{:02}",
            hours.unsigned_abs(),
            minutes.unsigned_abs()
        )
    };
    format!("{}{offset}", &utc[..SECONDS_LENGTH])
}

/// Serializes an instant or an `Option` of one, in the format of [`format()`].
///
/// # Errors
/// Returns the error of the serializer.
pub fn serialize<T, S>(instant: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Copy + Into<Option<OffsetDateTime>>,
    S: Serializer,
{
    let instant: Option<OffsetDateTime> = (*instant).into();
    instant.map(format).serialize(serializer)
}

/// Deserializes an instant of RFC 3339.
///
/// # Errors
/// Returns the error of the deserializer, or an error for another text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OffsetDateTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| de::Error::custom("an instant of RFC 3339 is wanted"))
}

/// Parses an instant with any offset and converts it to UTC. Returns `None` if the text is not an
/// instant of RFC 3339, or its year in UTC is not from 0 to 9999; for a leap second, which no clock here has; and for
/// another sign than `T` before the time.
pub fn parse(text: &str) -> Option<OffsetDateTime> {
    let (separator, second) = (text.get(10..11)?, text.get(17..19)?);
    if !separator.eq_ignore_ascii_case("t") || second == "60" {
        return None;
    }
    OffsetDateTime::parse(text, &Rfc3339)
        .ok()?
        .checked_to_offset(UtcOffset::UTC)
        .filter(|instant| instant.year() >= 0)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn milliseconds_are_always_three_digits() {
        assert_eq!(
            format(datetime!(2026-01-02 03:04:05 UTC)),
            "2026-01-02T03:04:05.000Z"
        );
        assert_eq!(
            format(datetime!(2026-01-02 03:04:05.078 +1)),
            "2026-01-02T02:04:05.078Z"
        );
    }

    #[test]
    fn local_instants_have_their_offset() {
        for (instant, expected) in [
            (datetime!(2026-11-28 0:00 +1), "2026-11-28T00:00:00+01:00"),
            (
                datetime!(2026-11-28 23:45:10.5 -3:30),
                "2026-11-28T23:45:10-03:30",
            ),
            (
                datetime!(2026-11-28 1:02:03 -0:30),
                "2026-11-28T01:02:03-00:30",
            ),
            (datetime!(2026-11-28 0:00 UTC), "2026-11-28T00:00:00Z"),
        ] {
            assert_eq!(format_local(instant), expected);
            assert_eq!(
                parse(expected).unwrap(),
                instant.replace_millisecond(0).unwrap()
            );
        }
    }

    #[test]
    fn instant_has_its_t_and_no_leap_second() {
        for text in [
            "2027-01-31 12:00:00Z",
            "2027-01-31_12:00:00Z",
            "2026-12-31T23:59:60Z",
            "2026-12-31T23:59:60.5+00:00",
            "2026-12-31T23:59:61Z",
            "2026-12-31",
            "",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let lower = parse("2027-01-31t12:00:59z").map(format);
        assert_eq!(lower.as_deref(), Some("2027-01-31T12:00:59.000Z"));
    }

    #[test]
    fn offset_cannot_leave_four_digit_years() {
        for text in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for (text, written) in [
            ("9999-12-31T23:59:59.9999Z", "9999-12-31T23:59:59.999Z"),
            ("0000-01-01T00:01:00+00:01", "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(parse(text).map(format).as_deref(), Some(written), "{text}");
        }
    }
}
