//! The commands that a writer has taken from its queue, in arrival order.
//!
//! While another process locks an account, the writer retries the account's oldest command with exponential backoff. The other
//! commands of the account wait meanwhile, and do not delay the commands of other accounts.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use linkledger_core::{
    batch::{ChangeRequest, LinkCommand},
    id::AccountId,
    metrics::COMMANDS_EXPIRED_TOTAL,
};
use metrics::counter;

use super::{
    QueuedCommand,
    batch_run::{Requeue, RequeuedCommand},
};
use crate::command_reply::{CommandRefusal, CommandReply};

/// Maximum number of commands of one batch.
const BATCH_COMMANDS_MAX: usize = 512;
/// Maximum number of bytes of destinations in one batch; the largest destination has 2 KiB.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// First backoff before the retry of an account that another process locks.
const BACKOFF_MIN: Duration = Duration::from_millis(2);
/// Longest backoff. The deadline of each command bounds the number of retries.
const BACKOFF_MAX: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct WaitingCommands {
    commands: VecDeque<QueuedCommand>,
    backoffs: HashMap<AccountId, AccountBackoff>,
}

/// Backoff of an account that another process locked at the last attempt.
#[derive(Debug, Clone, Copy)]
struct AccountBackoff {
    retry_at: Instant,
    delay: Duration,
}

impl WaitingCommands {
    pub(super) fn admit(&mut self, command: QueuedCommand) {
        self.commands.push_back(command);
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns true if [`Self::take_batch`] would take or expire a command.
    pub(super) fn has_ready(&self, now: Instant) -> bool {
        let is_ready = |command: &QueuedCommand| {
            let backoff = self.backoffs.get(&command.command.account_id());
            backoff.is_none_or(|backoff| backoff.retry_at <= now) || command.deadline <= now
        };
        self.commands.iter().any(is_ready)
    }

    /// Returns the earliest retry of an account.
    pub(super) fn next_retry_at(&self) -> Option<Instant> {
        self.backoffs.values().map(|backoff| backoff.retry_at).min()
    }

    pub(super) async fn until_next_retry(&self) {
        if let Some(at) = self.next_retry_at() {
            tokio::time::sleep_until(at.into()).await;
        }
    }

    /// Takes the commands that can run, up to the bounds of a batch. Commands past their deadline are
    /// answered.
    pub(super) fn take_batch(&mut self, now: Instant) -> Vec<QueuedCommand> {
        let (mut batch, mut aside) = (Vec::new(), VecDeque::new());
        let mut retried = HashSet::new();
        let mut bytes = 0;
        while batch.len() < BATCH_COMMANDS_MAX && bytes < BATCH_BYTES_MAX {
            let Some(command) = self.commands.pop_front() else {
                break;
            };
            let account_id = command.command.account_id();
            if command.deadline <= now {
                counter!(COMMANDS_EXPIRED_TOTAL).increment(1);
                command.answer(CommandReply::Refused(CommandRefusal::Overloaded));
                continue;
            }
            let backoff = self.backoffs.get(&account_id);
            if backoff.is_some_and(|backoff| backoff.retry_at > now || !retried.insert(account_id))
            {
                aside.push_back(command);
                continue;
            }
            bytes += bytes_of(&command.command);
            batch.push(command);
        }
        aside.append(&mut self.commands);
        self.commands = aside;
        self.backoffs.retain(|account_id, _| {
            let has_account = |command: &QueuedCommand| command.command.account_id() == *account_id;
            retried.contains(account_id) || self.commands.iter().any(has_account)
        });
        batch
    }

    /// Puts commands that did not run back, in their order and before all others. `accounts` are all
    /// accounts of the batch.
    pub(super) fn requeue(
        &mut self,
        accounts: HashSet<AccountId>,
        requeued: Vec<RequeuedCommand>,
        now: Instant,
    ) {
        let backing_off: HashSet<AccountId> = requeued
            .iter()
            .filter(|requeued| requeued.requeue == Requeue::AfterBackoff)
            .map(|requeued| requeued.command.command.account_id())
            .collect();
        for account_id in accounts {
            if backing_off.contains(&account_id) {
                let last = self.backoffs.get(&account_id);
                let delay = last.map_or(BACKOFF_MIN, |last| (last.delay * 2).min(BACKOFF_MAX));
                let retry_at = now + delay;
                self.backoffs
                    .insert(account_id, AccountBackoff { retry_at, delay });
            } else {
                self.backoffs.remove(&account_id);
            }
        }
        for RequeuedCommand { command, .. } in requeued.into_iter().rev() {
            self.commands.push_front(command);
        }
    }
}

/// Returns the bytes of the destination of a command, which bound the size of a batch.
fn bytes_of(command: &LinkCommand) -> usize {
    let destination = match command {
        LinkCommand::Create(create) => create.body.as_ref().ok().map(|draft| &draft.destination),
        LinkCommand::Change(change) => match &change.request {
            ChangeRequest::Destination(Ok(change)) => change.destination.as_ref(),
            ChangeRequest::Destination(Err(_)) | ChangeRequest::Delete(_) => None,
        },
    };
    destination.map_or(0, |destination| destination.as_str().len())
}

#[cfg(test)]
mod tests {
    use linkledger_core::{
        batch::{IdempotencyKey, KeyedCreate},
        envelope::Metadata,
    };
    use uuid::Uuid;

    use super::*;
    use crate::command_queue::in_flight::{CreatesInFlight, KeyEntry};

    fn queued(account: u128, key: u128, deadline: Instant) -> QueuedCommand {
        let create = KeyedCreate {
            account_id: AccountId::from_uuid(Uuid::from_u128(account)),
            key: IdempotencyKey(Uuid::from_u128(key)),
            fingerprint: [0; 32],
            body: Err(Vec::new()),
            metadata: Metadata::default(),
        };
        let KeyEntry::First(pending_reply) = CreatesInFlight::default().enter(&create) else {
            panic!("no other create has entered its key");
        };
        QueuedCommand {
            command: LinkCommand::Create(create),
            deadline,
            pending_reply,
        }
    }

    fn keys(batch: &[QueuedCommand]) -> Vec<u128> {
        batch
            .iter()
            .map(|queued| match &queued.command {
                LinkCommand::Create(create) => create.key.0.as_u128(),
                LinkCommand::Change(_) => panic!("only creates are queued here"),
            })
            .collect()
    }

    fn accounts(batch: &[QueuedCommand]) -> HashSet<AccountId> {
        batch
            .iter()
            .map(|queued| queued.command.account_id())
            .collect()
    }

    /// Requeues the commands of account 1 as locked by another process.
    fn locked_elsewhere(batch: Vec<QueuedCommand>) -> Vec<RequeuedCommand> {
        let is_first = |command: &QueuedCommand| command.command.account_id().uuid().as_u128() == 1;
        let of_first = batch.into_iter().filter(is_first);
        of_first
            .map(|command| RequeuedCommand {
                command,
                requeue: Requeue::AfterBackoff,
            })
            .collect()
    }

    #[test]
    fn locked_account_is_retried_with_backoff() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let mut waiting = WaitingCommands::default();
        for (account, key) in [(1, 1), (1, 2), (2, 3)] {
            waiting.admit(queued(account, key, later));
        }
        let batch = waiting.take_batch(now);
        assert_eq!(keys(&batch), [1, 2, 3]);
        let accounts_of_batch = accounts(&batch);
        waiting.requeue(accounts_of_batch, locked_elsewhere(batch), now);

        // Before the retry is due, only the command of the other account is ready.
        waiting.admit(queued(2, 4, later));
        waiting.admit(queued(1, 5, later));
        assert_eq!(keys(&waiting.take_batch(now)), [4]);
        assert!(!waiting.has_ready(now));
        assert_eq!(waiting.next_retry_at(), Some(now + BACKOFF_MIN));

        // When the retry is due, one command runs in vain; the next retry comes later.
        let due = now + BACKOFF_MIN;
        let retry = waiting.take_batch(due);
        assert_eq!(keys(&retry), [1]);
        waiting.requeue(accounts(&retry), locked_elsewhere(retry), due);
        assert_eq!(waiting.next_retry_at(), Some(due + BACKOFF_MIN * 2));

        // Once the account is unlocked, all its commands run in their order.
        let free = due + BACKOFF_MAX;
        let retry = waiting.take_batch(free);
        assert_eq!(keys(&retry), [1]);
        waiting.requeue(accounts(&retry), Vec::new(), free);
        assert_eq!(keys(&waiting.take_batch(free)), [2, 5]);
        assert!(waiting.is_empty() && waiting.next_retry_at().is_none());
    }

    #[test]
    fn expired_command_of_locked_account_is_answered() {
        let now = Instant::now();
        let mut waiting = WaitingCommands::default();
        waiting.admit(queued(1, 1, now + BACKOFF_MIN / 2));
        let batch = waiting.take_batch(now);
        waiting.requeue(accounts(&batch), locked_elsewhere(batch), now);
        let expired = now + BACKOFF_MIN / 2;
        assert!(waiting.has_ready(expired));
        assert!(waiting.take_batch(expired).is_empty() && waiting.is_empty());
        assert_eq!(waiting.next_retry_at(), None);
    }

    #[test]
    fn batch_size_is_bounded() {
        let now = Instant::now();
        let mut waiting = WaitingCommands::default();
        for key in 0..2 * BATCH_COMMANDS_MAX as u128 {
            waiting.admit(queued(1, key, now + BACKOFF_MAX));
        }
        assert_eq!(waiting.take_batch(now).len(), BATCH_COMMANDS_MAX);
        assert_eq!(waiting.len(), BATCH_COMMANDS_MAX);
    }
}
