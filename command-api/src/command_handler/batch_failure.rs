//! Classes of database errors by their meaning for a batch, by SQLSTATE only.

use linkledger_core::event_store::{is_lock_timeout, sqlstate};
use sqlx::Error;

/// Failure of a batch that had no effect, or perhaps none.
#[derive(Debug)]
pub(crate) enum BatchFailure {
    /// A command of the batch cannot be stored.
    Poison(Error),
    /// The batch collided with another transaction; a retry may succeed.
    Retry(Error),
    /// The database does not answer; nothing was written.
    Unavailable(Error),
    /// COMMIT was sent, but its outcome could not be determined.
    OutcomeUnknown(Error),
}

impl BatchFailure {
    /// Returns the failure for an error before COMMIT was sent.
    pub(super) fn before_commit(error: Error) -> Self {
        if matches!(error, Error::Decode(_) | Error::ColumnDecode { .. }) {
            // This release cannot read the stored effect of a used key.
            return Self::Poison(error);
        }
        let Some(state) = sqlstate(&error) else {
            return Self::Unavailable(error);
        };
        match &state[..2] {
            // Data exceptions and constraint violations.
            "22" | "23" => Self::Poison(error),
            // Transaction rollback: deadlocks, serialisation.
            "40" => Self::Retry(error),
            _ if is_lock_timeout(&error) => Self::Retry(error),
            _ => Self::Unavailable(error),
        }
    }
}
