//! Progress bar of a command, on standard error.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const INTERVAL: Duration = Duration::from_millis(100);
const TEMPLATE: &str = "{bar:40} {human_pos}/{human_len} events  {per_sec}  {eta} left";

/// Returns a bar that counts events; invisible if standard error is no terminal.
pub(super) fn bar(events: u64) -> ProgressBar {
    let bar = ProgressBar::new(events);
    let style = ProgressStyle::with_template(TEMPLATE);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(INTERVAL);
    bar
}

/// Returns the number of events per second.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people, never negative"
)]
pub(super) fn per_second(events: u64, took: Duration) -> u64 {
    (events as f64 / took.as_secs_f64().max(0.001)) as u64
}
