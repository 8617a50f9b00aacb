//! Records that are no events of the log: damaged ones, and those that no relay of the log has published.

use std::{mem, time::Duration};

use linkledger_core::metrics::RECORDS_UNREADABLE_TOTAL;
use metrics::counter;
use tokio::time::Instant;

/// Shortest time between two lines of the log: a flooded topic must not flood the log.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Records that are treated as absent: events that the topic lacks are read from the event store.
#[derive(Debug, Default)]
pub(super) struct UnreadableRecords {
    /// Number of records since the last line of the log, and the first of them.
    count: u64,
    first: Option<String>,
    logged_at: Option<Instant>,
}

impl UnreadableRecords {
    /// Counts a record.
    pub(super) fn add(&mut self, describe: impl FnOnce() -> String) {
        counter!(RECORDS_UNREADABLE_TOTAL).increment(1);
        self.count += 1;
        self.first.get_or_insert_with(describe);
    }

    /// Logs one line for all records since the last line, if it is due. Returns true if it did.
    pub(super) fn log_if_due(&mut self) -> bool {
        let is_recent = |at: Instant| at.elapsed() < LOG_INTERVAL;
        if self.logged_at.is_some_and(is_recent) {
            return false;
        }
        let first = self.first.take();
        if let Some(first) = &first {
            self.logged_at = Some(Instant::now());
            tracing::warn!(
                count = mem::take(&mut self.count),
                first,
                "the topic has records that are not events of the log: somebody else writes to it, or changes \
                 records; they are dropped, and the log is read instead"
            );
        }
        first.is_some()
    }
}
