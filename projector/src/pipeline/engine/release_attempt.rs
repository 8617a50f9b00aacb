//! Schedule of the automatic releases of a shard's parked accounts.

use tokio::time::Instant;

use crate::pipeline::{parking::ParkedAccount, retry::Backoff};

/// Maximum number of retries of one release: with the backoffs, some minutes.
const RETRIES_MAX: u32 = 60;

/// The next attempt to release a parked account.
#[derive(Debug)]
pub(super) struct ReleaseAttempt {
    /// Account before the one to release, in the order of the keys; `None` for the first account.
    pub(super) after: Option<ParkedAccount>,
    not_before: Option<Instant>,
    retries: u32,
    backoff: Backoff,
}

impl ReleaseAttempt {
    /// Returns an attempt that is due at once, for the account that follows `after`.
    pub(super) fn after(after: Option<ParkedAccount>) -> Self {
        Self {
            after,
            not_before: None,
            retries: 0,
            backoff: Backoff::default(),
        }
    }

    /// Returns the retry of the same account after a backoff; `None` after [`RETRIES_MAX`] retries.
    pub(super) fn retry(mut self) -> Option<Self> {
        self.retries += 1;
        self.not_before = Some(Instant::now() + self.backoff.next_delay());
        (self.retries <= RETRIES_MAX).then_some(self)
    }

    /// Returns true if the backoff is over.
    pub(super) fn is_due(&self) -> bool {
        self.not_before.is_none_or(|at| Instant::now() >= at)
    }
}
