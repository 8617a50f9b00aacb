//! Classes of database errors by their meaning for a commit group, by SQLSTATE only.

use linkledger_event_store::errors::{is_collision, is_of_stored_data, is_transient, sqlstate};
use sqlx::Error;

/// Failure of a commit group: it had no effect, except that the effect of an [`Self::OutcomeUnknown`] is not known.
#[derive(Debug)]
pub(crate) enum GroupFailure {
    /// A command of the commit group cannot be stored, or what it needs cannot be read.
    Poison(Error),
    /// The commit group collided with another transaction; a retry may succeed.
    Collision(Error),
    /// The session ended before COMMIT, or the server could not run the commit group; a retry on another
    /// session may succeed.
    Transient(Error),
    /// The database refuses the commit group, and would refuse a retry; nothing was written.
    Unavailable(Error),
    /// COMMIT was sent, but its outcome could not be determined.
    OutcomeUnknown(Error),
}

impl GroupFailure {
    /// Returns the failure for an error before COMMIT was sent.
    pub(super) fn before_commit(error: Error) -> Self {
        if is_of_stored_data(&error) {
            // The events of a used key, or of the link to be changed, cannot be read: their page is damaged, or a
            // later release wrote them.
            return Self::Poison(error);
        }
        if is_collision(&error) {
            return Self::Collision(error);
        }
        if is_transient(&error) {
            return Self::Transient(error);
        }
        // Data exceptions and constraint violations.
        let is_poison = sqlstate(&error).is_some_and(|state| matches!(&state[..2], "22" | "23"));
        if is_poison {
            return Self::Poison(error);
        }
        Self::Unavailable(error)
    }
}
