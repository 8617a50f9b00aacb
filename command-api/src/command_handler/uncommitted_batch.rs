//! A batch that is decided and appended, but perhaps not committed.

use std::{sync::Arc, time::Instant};

use linkledger_core::{
    batch::{AcceptedCommand, CommandOutcome, DecidedBatch, SettledCommand},
    credits::Credits,
    envelope::RecordedEvent,
    id::AccountId,
};

use crate::command_reply::{CommandRefusal, CommandReply, CommandResult};

/// Result of an attempt, for one command of the batch.
pub(crate) enum AttemptResult {
    /// Final reply to the command.
    Reply(CommandReply),
    /// The command has not run: another process locks the account.
    AccountLockedElsewhere,
    /// The command has not run: no slug was reserved. A retry reserves one.
    SlugNotReserved,
}

/// The decision on a command.
pub(super) struct DecidedCommand {
    pub(super) outcome: CommandOutcome,
    /// Credits of the account right after the decision.
    pub(super) credits: Option<Credits>,
}

pub(super) struct UncommittedBatch {
    /// Results of the accepted commands; [`CommandOutcome::Accepted`] holds an index into them.
    accepted: Vec<CommandResult>,
    /// Decision on each command of the batch, in order; `None` if another process locks the account.
    decided: Vec<Option<DecidedCommand>>,
    /// Accounts that this batch locks.
    pub(super) account_ids: Vec<AccountId>,
    /// Appended events, which are in the log if and only if the batch is committed.
    pub(super) events: Vec<RecordedEvent>,
    /// Instant at which the accounts were locked.
    pub(super) locked_at: Instant,
}

impl UncommittedBatch {
    pub(super) fn new(
        batch: DecidedBatch,
        events: Vec<RecordedEvent>,
        decided: Vec<Option<DecidedCommand>>,
        locked_at: Instant,
    ) -> Self {
        let result = |accepted: AcceptedCommand| match accepted.settled {
            SettledCommand::Create(settled) => CommandResult::Created(Arc::new(settled)),
            SettledCommand::Change(settled) => CommandResult::Changed(Arc::new(settled)),
        };
        Self {
            events,
            accepted: batch.accepted.into_iter().map(result).collect(),
            decided,
            account_ids: batch.credits.into_keys().collect(),
            locked_at,
        }
    }

    /// Returns the events of the committed batch, and one result for each of its commands.
    pub(super) fn into_events_and_results(self) -> (Vec<RecordedEvent>, Vec<AttemptResult>) {
        let accepted = self.accepted;
        let result = |decided: Option<DecidedCommand>| {
            let Some(DecidedCommand { outcome, credits }) = decided else {
                return AttemptResult::AccountLockedElsewhere;
            };
            match result(outcome, &accepted) {
                Some(outcome) => AttemptResult::Reply(CommandReply { outcome, credits }),
                None => AttemptResult::SlugNotReserved,
            }
        };
        (self.events, self.decided.into_iter().map(result).collect())
    }
}

/// Returns the result of a command for its caller; `None` if the command must be retried.
fn result(outcome: CommandOutcome, accepted: &[CommandResult]) -> Option<CommandResult> {
    Some(match outcome {
        CommandOutcome::Accepted(number) => accepted[number].clone(),
        CommandOutcome::AcceptedBefore(number) => accepted[number].to_repetition(),
        CommandOutcome::Replay(settled) => CommandResult::Replayed(Arc::new(*settled)),
        CommandOutcome::Unchanged(settled) => CommandResult::Changed(Arc::new(*settled)),
        CommandOutcome::Bulk(outcomes) => {
            let results = outcomes
                .into_iter()
                .map(|outcome| result(outcome, accepted));
            CommandResult::Bulk(results.collect::<Option<_>>()?)
        }
        CommandOutcome::DryRun(outcomes) => CommandResult::DryRun(outcomes.into()),
        CommandOutcome::Rejected(rejection) => {
            CommandResult::Refused(CommandRefusal::Rejected(rejection))
        }
        CommandOutcome::SlugNotReserved => return None,
    })
}
