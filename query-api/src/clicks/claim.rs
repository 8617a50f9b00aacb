//! Instant up to which heartbeats claim that all clicks are recorded: no later click may have an earlier instant.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Highest instant of the heartbeats that the database has, or may have, in milliseconds since 1970.
///
/// Heartbeats raise the claim before they are written, while they borrow the progress of the recorder, and lower it
/// after the commit that has deleted higher ones. The recorder reads the claim while it changes the progress.
#[derive(Debug, Clone)]
pub(super) struct ClaimedUntil(Arc<AtomicI64>);

impl ClaimedUntil {
    /// Creates the claim of a recorder that starts at an instant.
    pub(super) fn new(started_at_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(started_at_ms)))
    }

    /// Returns the instant, in milliseconds since 1970.
    pub(super) fn milliseconds(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Raises the claim to an instant, unless it is higher.
    pub(super) fn raise(&self, until_ms: i64) {
        self.0.fetch_max(until_ms, Ordering::SeqCst);
    }

    /// Sets the claim after the commit of a heartbeat, which is then the highest one.
    pub(super) fn set(&self, until_ms: i64) {
        self.0.store(until_ms, Ordering::SeqCst);
    }
}
