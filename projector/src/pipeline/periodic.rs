//! Work that is done from time to time, beside what the process is for.

use std::time::Duration;

use tokio::time::{self, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// Says when it is time, until the shutdown.
pub(crate) struct Periodic {
    due: Interval,
    shutdown: CancellationToken,
}

impl Periodic {
    /// At once, and then at most so often.
    pub(crate) fn new(interval: Duration, shutdown: CancellationToken) -> Self {
        let mut due = time::interval(interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { due, shutdown }
    }

    /// Waits until it is time; false: the process ends.
    pub(crate) async fn is_due(&mut self) -> bool {
        tokio::select! {
            _ = self.due.tick() => true,
            () = self.shutdown.cancelled() => false,
        }
    }
}
