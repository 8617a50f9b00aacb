//! Timer of a background task that runs at an interval until the shutdown.

use std::time::Duration;

use tokio::time::{self, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// Ticks at an interval until the shutdown.
pub(crate) struct Periodic {
    due: Interval,
    shutdown: CancellationToken,
}

impl Periodic {
    /// Returns a timer that is due at once, and then once per `interval`.
    pub(crate) fn new(interval: Duration, shutdown: CancellationToken) -> Self {
        let mut due = time::interval(interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { due, shutdown }
    }

    /// Makes the task due at once.
    pub(crate) fn reset_immediately(&mut self) {
        self.due.reset_immediately();
    }

    /// Waits until the task is due. Returns false after the shutdown.
    pub(crate) async fn is_due(&mut self) -> bool {
        tokio::select! {
            _ = self.due.tick() => true,
            () = self.shutdown.cancelled() => false,
        }
    }
}
