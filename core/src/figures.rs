//! Figures in the reports of operators' commands.

use std::time::Duration;

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
