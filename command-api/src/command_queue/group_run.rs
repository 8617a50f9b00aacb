//! Runs one commit group: answers the commands that have run, and returns the commands to retry.

use linkledger_core::{commands::LinkCommand, id::AccountId};
use linkledger_event_store::errors::is_of_storage;

use super::{
    QueuedCommand, Unavailable,
    account_queues::{AttemptFailure, DedicatedAttempt, RetriedCommand},
};
use crate::command_handler::{AccountLocks, AttemptResult, CommandHandler, GroupFailure};

/// Runs a commit group of commands of several accounts. Skips the accounts that another transaction locks.
/// Returns the commands to retry, in their order.
pub(super) async fn run_shared(
    handler: &CommandHandler,
    group: Vec<QueuedCommand>,
) -> Vec<RetriedCommand> {
    run_parts(handler, AccountLocks::SkipLocked, vec![group]).await
}

/// Waits for the lock of the account, and runs the commands that `take` returns then: a commit group has all
/// commands that arrived during the wait.
pub(super) async fn run_dedicated(
    handler: &CommandHandler,
    account_id: AccountId,
    take: impl FnOnce() -> Vec<QueuedCommand>,
) -> DedicatedAttempt {
    let locks = AccountLocks::WaitFor(account_id);
    let mut group = Vec::new();
    let taken = &mut group;
    let attempted = handler.attempt(locks, move || {
        *taken = take();
        commands_of(taken)
    });
    let attempted = attempted.await;
    let mut attempt = DedicatedAttempt::default();
    if group.is_empty() {
        // No lock, no session, or only commands past their deadline.
        attempt.failure = attempted.err().map(|failure| match failure {
            GroupFailure::Collision(_) => AttemptFailure::AccountLocked,
            GroupFailure::Poison(_)
            | GroupFailure::Transient(_)
            | GroupFailure::Unavailable(_)
            | GroupFailure::OutcomeUnknown(_) => AttemptFailure::StorageFailed,
        });
        return attempt;
    }
    let parts = settle_or_split(group, attempted, &mut attempt.retried);
    attempt
        .retried
        .extend(run_parts(handler, locks, parts).await);
    attempt.failure = attempt.retried.iter().find_map(|retried| retried.failure);
    attempt
}

async fn run_parts(
    handler: &CommandHandler,
    locks: AccountLocks,
    mut parts: Vec<Vec<QueuedCommand>>,
) -> Vec<RetriedCommand> {
    let mut retried = Vec::new();
    while let Some(part) = parts.pop() {
        let attempted = handler.attempt(locks, || commands_of(&part)).await;
        parts.extend(settle_or_split(part, attempted, &mut retried));
    }
    retried
}

fn commands_of(group: &[QueuedCommand]) -> Vec<&LinkCommand> {
    group.iter().map(|queued| &queued.command).collect()
}

/// Answers the commands of an attempt that have run, and adds the commands to retry to `retried`.
/// Returns the parts of the commit group that must be attempted separately, in reverse order: [`run_parts`] takes the
/// last one first.
fn settle_or_split(
    mut part: Vec<QueuedCommand>,
    attempted: Result<Vec<AttemptResult>, GroupFailure>,
    retried: &mut Vec<RetriedCommand>,
) -> Vec<Vec<QueuedCommand>> {
    let failure = match attempted {
        Ok(results) => {
            finish_commands(part, results, retried);
            return Vec::new();
        }
        Err(failure) => failure,
    };
    match failure {
        GroupFailure::Collision(error) => {
            let what =
                "the commit group collided with another transaction; retrying after a backoff";
            warn(&error, part.len(), what);
            retry_all(part, AttemptFailure::AccountLocked, retried);
        }
        GroupFailure::Transient(error) => {
            let what = "the database failed, and the commit group had no effect; retrying on another session";
            warn(&error, part.len(), what);
            retry_all(part, AttemptFailure::StorageFailed, retried);
        }
        // Halves the commit group until the poison command is alone: other commands must not fail.
        GroupFailure::Poison(_) if part.len() > 1 => {
            let second_half = part.split_off(part.len() / 2);
            return vec![second_half, part];
        }
        GroupFailure::Poison(error) if is_of_storage(&error) => {
            let what = "the database cannot read or write what a command needs; answered with 503";
            answer_all(part, Unavailable::StorageUnavailable, &error, what);
        }
        GroupFailure::Poison(error) => {
            let what = "a command cannot be stored and is answered with 500";
            answer_all(part, Unavailable::Failed, &error, what);
        }
        GroupFailure::Unavailable(error) => {
            let what = "the database refuses the commit group; the commands are answered with 503";
            answer_all(part, Unavailable::StorageUnavailable, &error, what);
        }
        GroupFailure::OutcomeUnknown(error) => {
            let what = "the outcome of the commit stays unknown; the commands of the commit group are \
                        answered with 504";
            answer_all(part, Unavailable::OutcomeUnknown, &error, what);
        }
    }
    Vec::new()
}

fn finish_commands(
    commands: Vec<QueuedCommand>,
    results: Vec<AttemptResult>,
    retried: &mut Vec<RetriedCommand>,
) {
    for (command, result) in commands.into_iter().zip(results) {
        let failure = match result {
            AttemptResult::Decided(decision) => {
                command.answer(Ok(decision));
                continue;
            }
            AttemptResult::AccountLockedElsewhere => Some(AttemptFailure::AccountLocked),
            AttemptResult::SlugNotReserved => None,
        };
        retried.push(RetriedCommand { command, failure });
    }
}

fn retry_all(part: Vec<QueuedCommand>, failure: AttemptFailure, retried: &mut Vec<RetriedCommand>) {
    let failure = Some(failure);
    let retry = |command| RetriedCommand { command, failure };
    retried.extend(part.into_iter().map(retry));
}

fn warn(error: &sqlx::Error, commands: usize, what: &str) {
    let error: &dyn std::error::Error = error;
    tracing::warn!(error, commands, "{what}");
}

fn answer_all(part: Vec<QueuedCommand>, reason: Unavailable, error: &sqlx::Error, what: &str) {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, commands = part.len(), "{what}");
    for command in part {
        command.answer(Err(reason));
    }
}
