//! Progress bar of a command, on standard error, and rate of its events.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
pub(super) use linkledger_core::figures::per_second;

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
