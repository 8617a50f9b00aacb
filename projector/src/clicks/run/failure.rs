//! Failures of batches: smaller batches, a skipped record, or a retry after a backoff.

use std::io;

use linkledger_core::event_store::errors;
use tokio::time::Instant;

use super::{CountingLoop, WARNING_INTERVAL};
use crate::pipeline::retry;

/// SQLSTATEs of a statement that took longer than its timeout, and of a transaction that stood still.
const TOO_LONG: [&str; 2] = ["57014", "25P03"];

/// Returns true if a smaller batch may succeed: a statement, a pause between two statements, or the whole batch has
/// exceeded its timeout.
fn is_too_long(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Io(error) = error {
        return error.kind() == io::ErrorKind::TimedOut;
    }
    errors::sqlstate(error).is_some_and(|state| TOO_LONG.contains(&state.as_ref()))
}

impl CountingLoop {
    /// Prepares the next batch after a failure. A batch that takes too long, or that the database refuses, is
    /// halved; so the record that is refused becomes a batch of its own, and is skipped.
    pub(super) fn handle_failure(&mut self, number: u8, error: &sqlx::Error) {
        let Some(Some(partition)) = self.partitions.get_mut(&number) else {
            return;
        };
        if errors::is_lock_timeout(error) {
            partition.back_off();
            self.warn_of(
                error,
                "a recount, a pause or another projector holds a position of clicks",
            );
            return;
        }
        let is_too_long = is_too_long(error);
        let is_refused = retry::is_refusal(error);
        if (is_too_long || is_refused) && partition.attempted() > 1 {
            partition.halve();
            return;
        }
        if is_refused && !partition.is_first_refused {
            let offset = partition.queue.front().map(|record| record.offset);
            tracing::error!(
                error = error as &dyn std::error::Error,
                partition = number,
                offset,
                "the database refuses a click; it is counted as unreadable"
            );
            partition.is_first_refused = true;
            return;
        }
        partition.back_off();
        // A partition of a table may have been dropped.
        self.days.forget();
        self.warn_of(error, "cannot count clicks");
    }

    /// Logs a failure that is retried, at most once per [`WARNING_INTERVAL`].
    pub(super) fn warn_of(&mut self, error: &sqlx::Error, attempt: &str) {
        if self
            .warned_at
            .is_some_and(|at| at.elapsed() < WARNING_INTERVAL)
        {
            return;
        }
        self.warned_at = Some(Instant::now());
        tracing::warn!(
            error = error as &dyn std::error::Error,
            "{attempt}; retrying"
        );
    }
}
