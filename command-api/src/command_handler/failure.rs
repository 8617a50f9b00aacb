//! What an error of the database means for a batch, told by SQLSTATE only.

use linkledger_core::event_store::{is_lock_timeout, sqlstate};
use sqlx::Error;

/// Why a batch had no effect, or perhaps none.
#[derive(Debug)]
pub(super) enum BatchFailure {
    /// One of its commands can't be stored.
    Poison(Error),
    /// It ran into another transaction; the next attempt may succeed.
    Repeat(Error),
    /// The database does not answer; nothing was done.
    Unavailable(Error),
    /// COMMIT was sent, and whether it was carried out could not be found out.
    OutcomeUnknown(Error),
}

impl BatchFailure {
    /// The meaning of an error that came before COMMIT was sent.
    pub(super) fn before_commit(error: Error) -> Self {
        if matches!(error, Error::Decode(_) | Error::ColumnDecode { .. }) {
            // What a key's effect is stored as can't be read by this release.
            return Self::Poison(error);
        }
        let Some(state) = sqlstate(&error) else {
            return Self::Unavailable(error);
        };
        match &state[..2] {
            // Data exceptions and constraint violations.
            "22" | "23" => Self::Poison(error),
            // Transaction rollback: deadlocks, serialisation.
            "40" => Self::Repeat(error),
            _ if is_lock_timeout(&error) => Self::Repeat(error),
            _ => Self::Unavailable(error),
        }
    }
}
