//! Number of events or rows of one step of a verification, halved after a statement timeout.

use linkledger_core::event_store::errors::sqlstate;

use crate::pipeline::retry::Retries;

/// Events of a bucket, or rows of a page: the database needs some tens of milliseconds.
const SIZE_MAX: i64 = 5_000;
/// Smallest size: a statement that times out with less is not helped by a smaller step.
const SIZE_MIN: i64 = 50;
/// SQLSTATE "query canceled", by which Postgres reports a statement timeout.
const QUERY_CANCELED: &str = "57014";

/// Size of the next step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepSize(i64);

impl Default for StepSize {
    fn default() -> Self {
        Self(SIZE_MAX)
    }
}

impl StepSize {
    /// Returns the number of events or rows.
    pub(super) fn get(self) -> i64 {
        self.0
    }

    /// Halves the size after a statement timeout; otherwise waits for the next attempt.
    ///
    /// # Errors
    /// Returns the given error if a retry cannot help: the error is permanent, the retries are used up,
    /// or the smallest step times out. Its contexts name the statement.
    pub(super) async fn after(
        &mut self,
        error: anyhow::Error,
        retries: &mut Retries,
    ) -> anyhow::Result<()> {
        if !is_statement_timeout(&error) {
            return retries.wait_after(error).await;
        }
        let half = self.0 / 2;
        if half < SIZE_MIN {
            let size = self.0;
            return Err(error.context(format!("a step of {size} events or rows timed out")));
        }
        tracing::debug!(
            error = format!("{error:#}"),
            size = half,
            "a step of a verification timed out; continuing with half of its size"
        );
        self.0 = half;
        Ok(())
    }
}

fn is_statement_timeout(error: &anyhow::Error) -> bool {
    let state = error.downcast_ref().and_then(sqlstate);
    state.is_some_and(|state| state == QUERY_CANCELED)
}

/// Runs a step, again with a smaller size after a statement timeout, and again after transient errors.
///
/// # Errors
/// Returns the error after which no retry can help.
pub(super) async fn in_steps<T, F>(
    size: &mut StepSize,
    step: impl Fn(i64) -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut retries = Retries::default();
    loop {
        match step(size.get()).await {
            Ok(done) => return Ok(done),
            Err(error) => size.after(error, &mut retries).await?,
        }
    }
}
