//! The one spelling of instants in HTTP and on Kafka: RFC 3339, UTC, `Z`, milliseconds.

use time::{
    OffsetDateTime, format_description::FormatItem, format_description::well_known::Rfc3339,
    macros::format_description,
};

const FORMAT: &[FormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// `2026-11-20T09:51:00.123Z`
pub fn format(instant: OffsetDateTime) -> String {
    instant
        .to_offset(time::UtcOffset::UTC)
        .format(FORMAT)
        .expect("every component is present")
}

/// The instant of that text, whatever its offset.
///
/// # Errors
/// When the text is not RFC 3339.
pub fn parse(text: &str) -> Result<OffsetDateTime, time::error::Parse> {
    OffsetDateTime::parse(text, &Rfc3339)
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
}
