//! Figures as people read them, in messages of commands. Pure.

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
}
