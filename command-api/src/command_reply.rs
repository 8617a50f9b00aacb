//! The reply to a command, which a route turns into the answer of a request.

use linkledger_core::{batch::CommandOutcome, credits::Credits};

/// Reply to a command: the decision, or the reason why there is none.
pub type Reply<T = CommandOutcome> = Result<Decision<T>, Unavailable>;

/// Decision on a command.
#[derive(Debug, Clone)]
pub struct Decision<T = CommandOutcome> {
    /// Outcome of the command.
    pub outcome: T,
    /// Credits of the account right after the decision.
    pub credits: Credits,
}

/// Reason why a command was not decided, or why the decision is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
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
