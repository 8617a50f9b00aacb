//! Classification of failures as transient or permanent, and the backoff between retries.

use std::{future::Future, time::Duration};

use linkledger_event_store::errors;
use tokio::time::sleep;

/// Delay after the first failure.
const DELAY_MIN: Duration = Duration::from_millis(50);
/// Longest delay between two attempts.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Returns true if a retry of the same statement may succeed.
fn is_transient(error: &sqlx::Error) -> bool {
    errors::is_transient(error) || lacks_partition(error)
}

/// Returns true if a failure is transient, so that a retry may succeed.
pub fn passes_by_itself(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<sqlx::Error>()
        .is_some_and(is_transient)
}

/// Returns true if the failure belongs to an event, permanently: the database refuses the data (classes 22
/// and 23) or finds a value too large (class 54), or the stored data cannot be decoded.
pub fn is_refusal(error: &sqlx::Error) -> bool {
    let state = errors::sqlstate(error);
    state.is_some_and(|state| matches!(&state[..2], "22" | "23" | "54")) && !lacks_partition(error)
        || matches!(error, sqlx::Error::Decode(_))
}

/// Returns true if the failure belongs to a table, permanently: the table or its rights are missing
/// (class 42), or the table is damaged (classes 58 and XX, code 55000). No event can be applied to the
/// table until an operator has mended the table.
pub fn is_table_fault(error: &sqlx::Error) -> bool {
    let state = errors::sqlstate(error);
    state.is_some_and(|state| matches!(&state[..2], "42" | "58" | "XX") || state == "55000")
}

/// Returns true if a table lacks the partition of the row. Postgres reports the violation of a
/// check without a name. The table is wrong, not the event: a retry succeeds once an operator has
/// created the partition.
fn lacks_partition(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_check_violation() && error.constraint().is_none())
}

/// Exponential backoff: the delay doubles with each failure.
#[derive(Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(DELAY_MIN)
    }
}

impl Backoff {
    /// Returns the delay before the next attempt, and doubles the following one.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.0;
        self.0 = (delay * 2).min(DELAY_MAX);
        delay
    }

    /// Resets the delay after a success.
    pub fn reset(&mut self) {
        self.0 = DELAY_MIN;
    }
}

/// Most retries in a row: about half a minute with the backoffs.
const RETRIES_MAX: u32 = 20;

/// Retries of an operation: bounded in a row, each after a backoff.
#[derive(Debug, Default)]
pub struct Retries {
    in_a_row: u32,
    backoff: Backoff,
}

impl Retries {
    /// Waits for the backoff, and returns true if the operation may be retried.
    pub async fn wait(&mut self) -> bool {
        if self.in_a_row == RETRIES_MAX {
            return false;
        }
        self.in_a_row += 1;
        sleep(self.backoff.next_delay()).await;
        true
    }

    /// Waits for the backoff after a transient error. Returns the error if it is permanent, or if
    /// the retries are used up.
    ///
    /// # Errors
    /// Returns the given error.
    pub async fn wait_after(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        if passes_by_itself(&error) && self.wait().await {
            tracing::debug!(
                error = format!("{error:#}"),
                "retried after a transient error"
            );
            return Ok(());
        }
        Err(error)
    }

    /// Resets the retries after progress.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Runs an operation, and retries the operation after transient errors.
///
/// # Errors
/// Returns the first permanent error, or a transient one once the retries are used up.
pub async fn retried<T, F>(operation: impl Fn() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut retries = Retries::default();
    loop {
        match operation().await {
            Ok(done) => return Ok(done),
            Err(error) => retries.wait_after(error).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_maximum_until_reset() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..8).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        backoff.reset();
        assert_eq!(backoff.next_delay(), DELAY_MIN);
    }

    #[test]
    fn broken_connection_is_transient_and_missing_row_is_not() {
        let broken = sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into());
        assert!(is_transient(&broken));
        assert!(!is_transient(&sqlx::Error::RowNotFound));
        assert!(!is_refusal(&broken));
    }
}
