//! Which failures pass by themselves, and how long to wait for that.

use std::time::Duration;

/// First wait after a failure.
const DELAY_MIN: Duration = Duration::from_millis(50);
/// Longest wait between two attempts.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Whether the database may do the same thing gladly a little later.
fn is_transient(error: &sqlx::Error) -> bool {
    if lacks_partition(error) {
        return true;
    }
    if let Some(code) = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
    {
        // Connection, resources, operator; conflicts; a lock or a session that took too long.
        return ["08", "40", "53", "57"]
            .iter()
            .any(|class| code.starts_with(class))
            || matches!(code.as_ref(), "55P03" | "25P03");
    }
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::WorkerCrashed
    )
}

/// Whether what failed is worth another attempt.
pub fn passes_by_itself(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<sqlx::Error>()
        .is_some_and(is_transient)
}

/// Whether the database refuses the data itself, or what it has can't be read: now and for ever.
pub fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
        && !lacks_partition(error)
        || matches!(error, sqlx::Error::Decode(_))
}

/// Whether a table has no partition for the row: a check is violated that has no name. It is the
/// table that is wrong, for everybody's rows, and somebody has to mend it.
fn lacks_partition(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_check_violation() && error.constraint().is_none())
}

/// Waits that double from one failure to the next.
#[derive(Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(DELAY_MIN)
    }
}

impl Backoff {
    /// The wait before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.0;
        self.0 = (delay * 2).min(DELAY_MAX);
        delay
    }

    /// An attempt has succeeded.
    pub fn reset(&mut self) {
        self.0 = DELAY_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_start_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..8).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        backoff.reset();
        assert_eq!(backoff.next_delay(), DELAY_MIN);
    }

    #[test]
    fn a_broken_connection_passes_and_a_missing_row_does_not() {
        let broken = sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into());
        assert!(is_transient(&broken));
        assert!(!is_transient(&sqlx::Error::RowNotFound));
        assert!(!is_refusal(&broken));
    }
}
