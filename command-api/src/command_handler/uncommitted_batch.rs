//! A batch that is decided and appended, but perhaps not committed.

use std::{sync::Arc, time::Instant};

use linkledger_core::{
    batch::{CommandOutcome, DecidedBatch, SettledCommand, SettledCreate, SettledLink},
    envelope::NewEvent,
    id::AccountId,
};

use crate::command_reply::{CommandRefusal, CommandReply};

/// Result of an attempt, for one command of the batch.
pub(crate) enum AttemptResult {
    /// Final reply to the command.
    Reply(CommandReply),
    /// The command has not run: another process locks the account.
    AccountLockedElsewhere,
    /// The command has not run: the generated slug is taken, and a retry generates another slug.
    SlugCollision,
}

pub(super) struct UncommittedBatch {
    accepted: Vec<AcceptedEffect>,
    /// Outcomes of the commands whose account is locked by this batch.
    outcomes: Vec<CommandOutcome>,
    /// For each command, true if another process locks the account.
    locked_elsewhere: Vec<bool>,
    /// Accounts that this batch locks.
    account_ids: Vec<AccountId>,
    first_event: Option<NewEvent>,
    /// Instant at which the accounts were locked.
    pub(super) locked_at: Instant,
}

/// Effect of an accepted command, shared with the later commands of the batch that repeat the command.
enum AcceptedEffect {
    Create(Arc<SettledCreate>),
    Change(Arc<SettledLink>),
}

impl UncommittedBatch {
    pub(super) fn new(
        decided: DecidedBatch,
        outcomes: Vec<CommandOutcome>,
        locked_elsewhere: Vec<bool>,
        locked_at: Instant,
    ) -> Self {
        let first = decided.accepted.first();
        let first_event = first.and_then(|accepted| accepted.events.first());
        Self {
            first_event: first_event.cloned(),
            accepted: decided
                .accepted
                .into_iter()
                .map(|accepted| AcceptedEffect::of(accepted.settled))
                .collect(),
            outcomes,
            locked_elsewhere,
            account_ids: decided.credits.into_keys().collect(),
            locked_at,
        }
    }

    /// Returns the first appended event, which is in the log if and only if the batch is committed.
    /// Returns `None` if nothing was appended.
    pub(super) fn first_event(&self) -> Option<&NewEvent> {
        self.first_event.as_ref()
    }

    /// Returns the accounts that this batch locks.
    pub(super) fn account_ids(&self) -> &[AccountId] {
        &self.account_ids
    }

    /// Returns one result for each command of the batch.
    pub(super) fn into_results(self) -> Vec<AttemptResult> {
        let accepted = self.accepted;
        let result = |outcome| {
            AttemptResult::Reply(match outcome {
                CommandOutcome::Accepted(number) => accepted[number].reply(),
                CommandOutcome::AcceptedBefore(number) => accepted[number].reply_to_repetition(),
                CommandOutcome::Replay(settled) => CommandReply::Replayed(Arc::new(*settled)),
                CommandOutcome::Unchanged(settled) => CommandReply::Changed(Arc::new(*settled)),
                CommandOutcome::Rejected(rejection) => {
                    CommandReply::Refused(CommandRefusal::Rejected(rejection))
                }
                CommandOutcome::SlugCollision => return AttemptResult::SlugCollision,
            })
        };
        let mut results = self.outcomes.into_iter().map(result);
        self.locked_elsewhere
            .into_iter()
            .filter_map(|is_locked_elsewhere| {
                if is_locked_elsewhere {
                    Some(AttemptResult::AccountLockedElsewhere)
                } else {
                    results.next()
                }
            })
            .collect()
    }
}

impl AcceptedEffect {
    fn of(settled: SettledCommand) -> Self {
        match settled {
            SettledCommand::Create(settled) => Self::Create(Arc::new(settled)),
            SettledCommand::Change(settled) => Self::Change(Arc::new(settled)),
        }
    }

    /// Returns the reply to the command that had the effect.
    fn reply(&self) -> CommandReply {
        match self {
            Self::Create(settled) => CommandReply::Created(Arc::clone(settled)),
            Self::Change(settled) => CommandReply::Changed(Arc::clone(settled)),
        }
    }

    /// Returns the reply to a later command of the batch that asks for the same effect.
    fn reply_to_repetition(&self) -> CommandReply {
        match self {
            Self::Create(settled) => CommandReply::Replayed(Arc::clone(settled)),
            Self::Change(settled) => CommandReply::Changed(Arc::clone(settled)),
        }
    }
}
