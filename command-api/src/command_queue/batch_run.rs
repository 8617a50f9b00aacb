//! Runs one batch: answers the commands that have run, and returns the commands to retry.

use linkledger_core::batch::LinkCommand;

use super::QueuedCommand;
use crate::{
    command_handler::{AttemptResult, BatchFailure, CommandHandler},
    command_reply::{CommandRefusal, CommandReply},
};

/// A command that has not run and must be retried.
#[derive(Debug)]
pub(super) struct RequeuedCommand {
    pub(super) command: QueuedCommand,
    pub(super) requeue: Requeue,
}

/// Time at which a requeued command is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requeue {
    /// After the backoff of the command's account.
    AfterBackoff,
    /// In the next batch.
    Immediately,
}

/// Runs the batch. Returns the commands to retry, in their order.
pub(super) async fn run(
    handler: &CommandHandler,
    batch: Vec<QueuedCommand>,
) -> Vec<RequeuedCommand> {
    let mut requeued = Vec::new();
    let mut parts = vec![batch];
    while let Some(mut part) = parts.pop() {
        let commands: Vec<&LinkCommand> = part.iter().map(|queued| &queued.command).collect();
        match handler.attempt(&commands).await {
            Ok(results) => {
                for (command, result) in part.into_iter().zip(results) {
                    let requeue = match result {
                        AttemptResult::Reply(reply) => {
                            command.answer(reply);
                            continue;
                        }
                        AttemptResult::AccountLockedElsewhere => Requeue::AfterBackoff,
                        AttemptResult::SlugCollision => Requeue::Immediately,
                    };
                    requeued.push(RequeuedCommand { command, requeue });
                }
            }
            Err(BatchFailure::Retry(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    commands = part.len(),
                    "the batch collided with another transaction; retrying after a backoff"
                );
                requeued.extend(part.into_iter().map(|command| RequeuedCommand {
                    command,
                    requeue: Requeue::AfterBackoff,
                }));
            }
            // Halves the batch until the poison command is alone: other commands must not fail.
            Err(BatchFailure::Poison(_)) if part.len() > 1 => {
                let second_half = part.split_off(part.len() / 2);
                parts.extend([second_half, part]);
            }
            Err(BatchFailure::Poison(error)) => {
                let what = "a command cannot be stored and is answered with 500";
                refuse_all(part, &CommandRefusal::Failed, &error, what);
            }
            Err(BatchFailure::Unavailable(error)) => {
                let what =
                    "the database is unavailable; the commands of the batch are answered with 503";
                refuse_all(part, &CommandRefusal::StorageUnavailable, &error, what);
            }
            Err(BatchFailure::OutcomeUnknown(error)) => {
                let what = "the outcome of the commit stays unknown; the commands of the batch are \
                            answered with 504";
                refuse_all(part, &CommandRefusal::OutcomeUnknown, &error, what);
            }
        }
    }
    requeued
}

fn refuse_all(
    batch: Vec<QueuedCommand>,
    refusal: &CommandRefusal,
    error: &sqlx::Error,
    what: &str,
) {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, commands = batch.len(), "{what}");
    for command in batch {
        command.answer(CommandReply::Refused(refusal.clone()));
    }
}
