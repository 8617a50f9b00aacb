//! Numbers as people read them. Pure.

pub(crate) use linkledger_service::figures::{counted, grouped, per_second};

/// Formats a duration in a suitable unit: `0.3 s`, `12 s`, `5 min`, `3 h`, `2 d`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s <= 0.0 => "0 s".to_owned(),
        s if s < 9.95 => format!("{:.1} s", s.max(0.1)),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// Formats a rate: a whole number, or one decimal below 10.
pub(crate) fn rate(per_second: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a rate of events")]
    match per_second {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{per_second:.1}"),
        _ => grouped(per_second.round() as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_rate_has_a_decimal() {
        let texts = [0.0, 0.26, 9.94, 1_234.5].map(rate);
        assert_eq!(texts, ["0", "0.3", "9.9", "1,235"]);
    }

    #[test]
    fn duration_has_a_suitable_unit() {
        let texts = [0.0, 0.004, 0.26, 9.96, 119.0, 150.0, 7_300.0, 200_000.0].map(duration);
        let expected = [
            "0 s", "0.1 s", "0.3 s", "10 s", "119 s", "2 min", "2 h", "2 d",
        ];
        assert_eq!(texts, expected);
    }
}
