//! Numbers as people read them, in messages of commands. Pure.

use std::time::Duration;

/// Formats a count with separators of thousands: `1,234,567`.
pub fn grouped(count: i64) -> String {
    let digits = count.unsigned_abs().to_string();
    let mut text = String::from(if count < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun, given in the singular: `1 row`, `1,234 rows`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", grouped(count.cast_signed())),
    }
}

/// Returns the rate of `count` in a second.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people, never negative"
)]
pub fn per_second(count: u64, took: Duration) -> u64 {
    (count as f64 / took.as_secs_f64().max(0.001)) as u64
}

/// Formats a duration in a suitable unit: `0.3 s`, `12 s`, `5 min`, `3 h`, `2 d`.
pub fn duration(seconds: f64) -> String {
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
pub fn rate(per_second: f64) -> String {
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
    fn thousands_have_separators() {
        let texts = [0, 999, 1_000, 1_234_567, -12_345].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567", "-12,345"]);
    }

    #[test]
    fn count_of_one_takes_the_singular() {
        let texts = [0, 1, 2_500].map(|count| counted(count, "row"));
        assert_eq!(texts, ["0 rows", "1 row", "2,500 rows"]);
    }

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
