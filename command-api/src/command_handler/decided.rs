//! A batch that is decided and appended, but perhaps not committed.

use std::{sync::Arc, time::Instant};

use linkledger_core::{
    batch::{CommandOutcome, DecidedBatch, SettledCommand, SettledCreate, SettledLink},
    envelope::NewEvent,
    id::AccountId,
};

use crate::command_queue::{Refusal, Reply};

/// What an attempt came to, for one of its commands.
pub(super) enum Verdict {
    Answer(Reply),
    /// Its account is held by another process.
    Held,
    /// It needs another slug.
    Again,
}

pub(super) struct Decided {
    accepted: Vec<Effect>,
    /// One for each command whose account is locked.
    outcomes: Vec<CommandOutcome>,
    /// Of each command whether its account is not.
    is_held: Vec<bool>,
    /// Those that are locked.
    account_ids: Vec<AccountId>,
    first_event: Option<NewEvent>,
    /// Since when the accounts are locked.
    pub(super) locked_at: Instant,
}

/// What an accepted command is answered, and whoever else it stands for.
enum Effect {
    Create(Arc<SettledCreate>),
    Change(Arc<SettledLink>),
}

impl Decided {
    pub(super) fn new(
        decided: DecidedBatch,
        outcomes: Vec<CommandOutcome>,
        is_held: Vec<bool>,
        locked_at: Instant,
    ) -> Self {
        let first = decided.accepted.first();
        Self {
            first_event: first.and_then(|it| it.events.first()).cloned(),
            accepted: decided
                .accepted
                .into_iter()
                .map(|it| Effect::of(it.settled))
                .collect(),
            outcomes,
            is_held,
            account_ids: decided.credits.into_keys().collect(),
            locked_at,
        }
    }

    /// The first event that was appended: in the log, if the batch is committed. `None` if nothing
    /// was appended.
    pub(super) fn first_event(&self) -> Option<&NewEvent> {
        self.first_event.as_ref()
    }

    /// The accounts that are locked.
    pub(super) fn account_ids(&self) -> &[AccountId] {
        &self.account_ids
    }

    /// One for each command of the batch.
    pub(super) fn verdicts(self) -> Vec<Verdict> {
        let accepted = self.accepted;
        let verdict = |outcome| match outcome {
            CommandOutcome::Accepted(number) => Verdict::Answer(accepted[number].reply()),
            CommandOutcome::AcceptedBefore(number) => {
                Verdict::Answer(accepted[number].reply_again())
            }
            CommandOutcome::Replay(settled) => Verdict::Answer(Reply::Replayed(Arc::new(*settled))),
            CommandOutcome::Unchanged(settled) => {
                Verdict::Answer(Reply::Changed(Arc::new(*settled)))
            }
            CommandOutcome::Rejected(rejection) => {
                Verdict::Answer(Reply::Refused(Refusal::Rejected(rejection)))
            }
            CommandOutcome::SlugCollision => Verdict::Again,
        };
        let mut verdicts = self.outcomes.into_iter().map(verdict);
        self.is_held
            .into_iter()
            .filter_map(|is_held| {
                if is_held {
                    Some(Verdict::Held)
                } else {
                    verdicts.next()
                }
            })
            .collect()
    }
}

impl Effect {
    fn of(settled: SettledCommand) -> Self {
        match settled {
            SettledCommand::Create(settled) => Self::Create(Arc::new(settled)),
            SettledCommand::Change(settled) => Self::Change(Arc::new(settled)),
        }
    }

    /// The answer to the command that had the effect.
    fn reply(&self) -> Reply {
        match self {
            Self::Create(settled) => Reply::Created(Arc::clone(settled)),
            Self::Change(settled) => Reply::Changed(Arc::clone(settled)),
        }
    }

    /// The answer to a later command that asks for the same.
    fn reply_again(&self) -> Reply {
        match self {
            Self::Create(settled) => Reply::Replayed(Arc::clone(settled)),
            Self::Change(settled) => Reply::Changed(Arc::clone(settled)),
        }
    }
}
