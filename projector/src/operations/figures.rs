//! Figures as people read them. Pure.

use std::time::Duration;

/// A count with its thousands set apart: `1,234,567`.
pub(crate) fn grouped(count: i64) -> String {
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

/// So many of what has this name in the singular: `1 row`, `1,234 rows`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", grouped(count.cast_signed())),
    }
}

/// A duration in the unit in which people would say it: `0.3 s`, `12 s`, `5 min`, `3 h`, `2 d`.
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

/// How many of them in a second.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people, never negative"
)]
pub(crate) fn per_second(count: u64, took: Duration) -> u64 {
    (count as f64 / took.as_secs_f64().max(0.001)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0, 999, 1_000, 1_234_567, -12_345].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567", "-12,345"]);
    }

    #[test]
    fn one_is_not_many() {
        let texts = [0, 1, 2_500].map(|count| counted(count, "row"));
        assert_eq!(texts, ["0 rows", "1 row", "2,500 rows"]);
    }

    #[test]
    fn durations_are_in_the_unit_that_people_would_choose() {
        let texts = [0.0, 0.004, 0.26, 9.96, 119.0, 150.0, 7_300.0, 200_000.0].map(duration);
        let expected = [
            "0 s", "0.1 s", "0.3 s", "10 s", "119 s", "2 min", "2 h", "2 d",
        ];
        assert_eq!(texts, expected);
    }
}
