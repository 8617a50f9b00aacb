//! The reply to a command, which a route turns into the answer of a request.

use std::sync::Arc;

use linkledger_core::{
    batch::{CommandRejection, DryRunOutcome, SettledCreate, SettledLink},
    credits::Credits,
};

/// Reply to a command, from which the caller learns the outcome.
#[derive(Debug, Clone)]
pub struct CommandReply {
    /// Outcome of the command.
    pub outcome: CommandResult,
    /// Credits of the account right after the decision; `None` if the command was not decided.
    pub credits: Option<Credits>,
}

/// Outcome of a command for its caller.
#[derive(Debug, Clone)]
pub enum CommandResult {
    /// Create that had its effect.
    Created(Arc<SettledCreate>),
    /// Create that had its effect in an earlier request with the same key.
    Replayed(Arc<SettledCreate>),
    /// Link in the requested state.
    Changed(Arc<SettledLink>),
    /// Outcomes of the creates of an atomic bulk: all are created, or all are replayed.
    Bulk(Arc<[Self]>),
    /// Outcomes of the creates of a dry run.
    DryRun(Arc<[DryRunOutcome]>),
    /// Reason why the command had no effect, or why its effect is unknown.
    Refused(CommandRefusal),
}

impl CommandReply {
    /// Returns the reply to a command that was not decided.
    pub(crate) const fn undecided(refusal: CommandRefusal) -> Self {
        Self {
            outcome: CommandResult::Refused(refusal),
            credits: None,
        }
    }
}

impl CommandResult {
    /// Returns the outcome of a later command that asks for the same effect.
    pub(crate) fn to_repetition(&self) -> Self {
        match self {
            Self::Created(settled) => Self::Replayed(Arc::clone(settled)),
            Self::Bulk(outcomes) => Self::Bulk(outcomes.iter().map(Self::to_repetition).collect()),
            Self::Replayed(_) | Self::Changed(_) | Self::DryRun(_) | Self::Refused(_) => {
                self.clone()
            }
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
