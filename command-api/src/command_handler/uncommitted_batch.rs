//! A batch that is decided and appended, but perhaps not committed.

use std::{sync::Arc, time::Instant};

use linkledger_core::{
    batch::{AcceptedCommand, CommandOutcome, DecidedBatch, SettledCommand},
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
    /// The command has not run: no slug was reserved. A retry reserves one.
    SlugNotReserved,
}

pub(super) struct UncommittedBatch {
    /// Replies to the accepted commands.
    accepted: Vec<CommandReply>,
    /// Outcome of each command; `None` if another process locks the account.
    outcomes: Vec<Option<CommandOutcome>>,
    /// Accounts that this batch locks.
    pub(super) account_ids: Vec<AccountId>,
    /// First appended event, which is in the log if and only if the batch is committed; `None` if
    /// nothing was appended.
    pub(super) first_event: Option<NewEvent>,
    /// Instant at which the accounts were locked.
    pub(super) locked_at: Instant,
}

impl UncommittedBatch {
    pub(super) fn new(
        decided: DecidedBatch,
        outcomes: Vec<Option<CommandOutcome>>,
        locked_at: Instant,
    ) -> Self {
        let first = decided.accepted.first();
        let first_event = first.and_then(|accepted| accepted.events.first());
        let reply = |accepted: AcceptedCommand| match accepted.settled {
            SettledCommand::Create(settled) => CommandReply::Created(Arc::new(settled)),
            SettledCommand::Change(settled) => CommandReply::Changed(Arc::new(settled)),
        };
        Self {
            first_event: first_event.cloned(),
            accepted: decided.accepted.into_iter().map(reply).collect(),
            outcomes,
            account_ids: decided.credits.into_keys().collect(),
            locked_at,
        }
    }

    /// Returns one result for each command of the batch.
    pub(super) fn into_results(self) -> Vec<AttemptResult> {
        let accepted = self.accepted;
        let result = |outcome: Option<CommandOutcome>| {
            let Some(outcome) = outcome else {
                return AttemptResult::AccountLockedElsewhere;
            };
            AttemptResult::Reply(match outcome {
                CommandOutcome::Accepted(number) => accepted[number].clone(),
                CommandOutcome::AcceptedBefore(number) => accepted[number].to_repetition(),
                CommandOutcome::Replay(settled) => CommandReply::Replayed(Arc::new(*settled)),
                CommandOutcome::Unchanged(settled) => CommandReply::Changed(Arc::new(*settled)),
                CommandOutcome::Rejected(rejection) => {
                    CommandReply::Refused(CommandRefusal::Rejected(rejection))
                }
                CommandOutcome::SlugNotReserved => return AttemptResult::SlugNotReserved,
            })
        };
        self.outcomes.into_iter().map(result).collect()
    }
}
