//! The reply to a command, which a route turns into the answer of a request.

use std::sync::Arc;

use linkledger_core::batch::{CommandRejection, SettledCreate, SettledLink};

/// Reply to a command, from which the caller learns the outcome.
#[derive(Debug, Clone)]
pub enum CommandReply {
    /// Create that had its effect.
    Created(Arc<SettledCreate>),
    /// Create that had its effect in an earlier request with the same key.
    Replayed(Arc<SettledCreate>),
    /// Link in the requested state.
    Changed(Arc<SettledLink>),
    /// Reason why the command had no effect, or why its effect is unknown.
    Refused(CommandRefusal),
}

impl CommandReply {
    /// Returns the reply to a later command that asks for the same effect.
    pub(crate) fn to_repetition(&self) -> Self {
        match self {
            Self::Created(settled) => Self::Replayed(Arc::clone(settled)),
            Self::Replayed(_) | Self::Changed(_) | Self::Refused(_) => self.clone(),
        }
    }
}

/// Reason why a command had no effect, or why its effect is unknown.
#[derive(Debug, Clone)]
pub enum CommandRefusal {
    /// The decision on the command was a rejection.
    Rejected(CommandRejection),
    /// The command has not run before its deadline: the queue was full, or another process locked
    /// the account for too long.
    Overloaded,
    /// The command has not run: the database fails.
    StorageUnavailable,
    /// The command may have had its effect.
    OutcomeUnknown,
    /// An earlier create with the same key is still running.
    KeyInUse,
    /// The command has not run, because of a defect.
    Failed,
}
