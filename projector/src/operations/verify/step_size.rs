//! Number of events or rows of one step of a verification, halved after a statement timeout, and doubled
//! again after successes.

use anyhow::Context as _;
use linkledger_event_store::errors::sqlstate;

use crate::pipeline::retry::Retries;

/// Events of a bucket, or rows of a page: the database needs some tens of milliseconds.
const SIZE_MAX: i64 = 5_000;
/// Smallest size: a statement that times out with less is not helped by a smaller step, only by a wait.
const SIZE_MIN: i64 = 50;
/// SQLSTATE "query canceled", by which Postgres reports a statement timeout.
const QUERY_CANCELED: &str = "57014";

/// Successes in a row after which the size doubles: a step that times out costs seconds.
const SUCCESSES_TO_GROW: u32 = 16;

/// Size of the next step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepSize {
    size: i64,
    successes: u32,
}

impl Default for StepSize {
    fn default() -> Self {
        Self {
            size: SIZE_MAX,
            successes: 0,
        }
    }
}

impl StepSize {
    /// Returns the number of events or rows.
    pub(super) fn get(self) -> i64 {
        self.size
    }

    /// Doubles the size after some successes in a row, up to the original size.
    pub(super) fn after_success(&mut self) {
        self.successes += 1;
        if self.successes == SUCCESSES_TO_GROW {
            self.successes = 0;
            self.size = (self.size * 2).min(SIZE_MAX);
        }
    }

    /// Halves the size after a statement timeout; otherwise, and at the smallest size, waits for the next
    /// attempt.
    ///
    /// # Errors
    /// Returns the given error if a retry cannot help: the error is permanent, or the retries are used up.
    /// Its contexts name the statement.
    pub(super) async fn after(
        &mut self,
        error: anyhow::Error,
        retries: &mut Retries,
    ) -> anyhow::Result<()> {
        if !is_statement_timeout(&error) {
            return retries.wait_after(error).await;
        }
        self.successes = 0;
        let (size, half) = (self.size, self.size / 2);
        if half < SIZE_MIN {
            let waited = retries.wait_after(error).await;
            return waited.with_context(|| format!("a step of {size} events or rows timed out"));
        }
        tracing::debug!(
            error = format!("{error:#}"),
            size = half,
            "a step of a verification timed out; continuing with half of its size"
        );
        self.size = half;
        Ok(())
    }
}

fn is_statement_timeout(error: &anyhow::Error) -> bool {
    let state = error.downcast_ref().and_then(sqlstate);
    state.is_some_and(|state| state == QUERY_CANCELED)
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, error, fmt, time::Duration, time::Instant};

    use sqlx::error::{DatabaseError, ErrorKind};

    use super::*;

    /// Error that Postgres returns after a statement timeout.
    #[derive(Debug)]
    struct StatementTimeout;

    impl fmt::Display for StatementTimeout {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.message())
        }
    }

    impl error::Error for StatementTimeout {}

    impl DatabaseError for StatementTimeout {
        fn message(&self) -> &'static str {
            "canceling statement due to statement timeout"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(QUERY_CANCELED.into())
        }

        fn as_error(&self) -> &(dyn error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn statement_timeout() -> anyhow::Error {
        let error = anyhow::Error::from(sqlx::Error::Database(Box::new(StatementTimeout)));
        error.context("cannot compare the table `links`")
    }

    #[tokio::test]
    async fn timeouts_halve_the_step_and_then_wait() {
        let (mut size, mut retries) = (StepSize::default(), Retries::default());
        let mut sizes = Vec::new();
        let begun_at = Instant::now();
        for _ in 0..8 {
            sizes.push(size.get());
            size.after(statement_timeout(), &mut retries).await.unwrap();
        }
        assert_eq!(sizes, [5_000, 2_500, 1_250, 625, 312, 156, 78, 78]);
        assert!(begun_at.elapsed() >= Duration::from_millis(100));
    }

    #[tokio::test]
    async fn successes_in_a_row_grow_the_step_to_its_original_size() {
        let (mut size, mut retries) = (StepSize::default(), Retries::default());
        for _ in 0..2 {
            size.after(statement_timeout(), &mut retries).await.unwrap();
        }
        let mut sizes = vec![size.get()];
        for success in 1..=4 * SUCCESSES_TO_GROW {
            size.after_success();
            if success % SUCCESSES_TO_GROW == 0 {
                sizes.push(size.get());
            } else {
                assert_eq!(sizes.last(), Some(&size.get()));
            }
        }
        assert_eq!(sizes, [1_250, 2_500, 5_000, 5_000, 5_000]);
    }
}
