//! Limit of the look-ups of unknown keys.

use std::time::Duration;

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::problem::{Code, Problem};

/// Maximal number of concurrent look-ups of unknown keys. Each takes a session; the services have
/// more sessions.
const UNKNOWN_KEYS_RUNNING_MAX: usize = 2;
/// Maximal number of unknown keys that wait for a look-up. The next key is answered `overloaded`.
const UNKNOWN_KEYS_WAITING_MAX: usize = 256;
/// Longest wait for the look-up of an unknown key, in seconds.
const UNKNOWN_KEY_WAIT_MAX: Duration = Duration::from_secs(1);

/// Limits the concurrent look-ups of unknown keys, so that any number of invented keys takes only a
/// few sessions.
pub(super) struct UnknownKeyLimit {
    waiting: Semaphore,
    running: Semaphore,
}

impl Default for UnknownKeyLimit {
    fn default() -> Self {
        Self {
            waiting: Semaphore::new(UNKNOWN_KEYS_WAITING_MAX),
            running: Semaphore::new(UNKNOWN_KEYS_RUNNING_MAX),
        }
    }
}

impl UnknownKeyLimit {
    /// Waits for a place.
    ///
    /// # Errors
    /// Returns `overloaded` if too many unknown keys wait, or after [`UNKNOWN_KEY_WAIT_MAX`].
    pub(super) async fn acquire(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let overloaded = || {
            let detail = "Too many unknown API keys are being looked up; retry shortly.";
            Problem::new(Code::Overloaded, detail).retry_after(1)
        };
        let _place = self.waiting.try_acquire().map_err(|_| overloaded())?;
        match timeout(UNKNOWN_KEY_WAIT_MAX, self.running.acquire()).await {
            Ok(permit) => Ok(permit.expect("the semaphore is never closed")),
            Err(_) => Err(overloaded()),
        }
    }
}
