//! Reads of the database for an answer: with a timeout, and with a problem if they fail.

use crate::problem::Problem;
use linkledger_event_store::{
    errors::is_collision,
    time_limit::{READ_TIME_MAX, read_on_live_session, within},
};

/// Reads on a live session, up to a timeout. An error is logged, because the caller only learns that
/// the storage is unavailable.
///
/// # Errors
/// Returns `storage_unavailable` if the database fails or does not answer in time.
pub async fn read_in_time<T, F: Future<Output = sqlx::Result<T>>>(
    read: impl FnMut() -> F,
) -> Result<T, Problem> {
    let read = try_read_in_time(read).await;
    read.map_err(|error| storage_unavailable(&error))
}

/// Reads on a live session, up to a timeout: no answer fails because its session has ended.
///
/// # Errors
/// Returns an error if the database fails or does not answer in time.
pub async fn try_read_in_time<T, F: Future<Output = sqlx::Result<T>>>(
    read: impl FnMut() -> F,
) -> sqlx::Result<T> {
    within(READ_TIME_MAX, read_on_live_session(read)).await
}

/// Logs the error and returns `storage_unavailable`.
pub fn storage_unavailable(error: &sqlx::Error) -> Problem {
    let cause = error as &dyn std::error::Error;
    if is_collision(error) {
        // For example a read of a replica, cancelled by replayed changes of the primary (40001): the
        // primary answers instead.
        tracing::warn!(error = cause, "a read gave way to another session");
    } else {
        tracing::error!(error = cause, "cannot read the database");
    }
    Problem::storage_unavailable()
}
