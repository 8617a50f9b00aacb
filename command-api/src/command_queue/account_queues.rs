//! The waiting commands of one writer: a queue for each account. The accounts are served in turn.
//!
//! A command that cannot run goes back to the front of its account's queue. The account backs off,
//! and delays no other account.
//!
//! All limits count creates and changes: a command with several creates counts as often.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque, hash_map::Entry},
    time::{Duration, Instant},
};

use linkledger_core::{commands::LinkCommand, id::AccountId};

use super::{QueuedCommand, Unavailable};

/// Maximum number of commands that wait or run. A command beyond is answered `overloaded`.
const COMMANDS_MAX: usize = 4_096;
/// Maximum number of commands of one account that wait or run, so that one account leaves room for
/// the others.
const ACCOUNT_COMMANDS_MAX: usize = 1_024;
/// Number of commands from which a commit group is full. The last command is never divided, so an atomic request may
/// exceed the number.
const GROUP_COMMANDS_MAX: usize = 512;
/// Number of bytes of destinations from which a commit group is full; the largest destination has 8 KiB.
const GROUP_BYTES_MAX: usize = 512 * 1024;
/// Maximum number of commands of one account in a shared commit group. An account with more waiting commands
/// gets a dedicated transaction; a request of as many links as are allowed needs none.
const ACCOUNT_SHARE_MAX: usize = 100;
/// Number of commands as which an atomic request or a dry run counts at least: each is decided on a copy
/// of the state of its commit group.
const BATCH_COMMANDS_MIN: usize = GROUP_COMMANDS_MAX / 16;
/// Number of waiting commands from which an account that another process locks gets a dedicated transaction.
const LOCKED_COMMANDS_MIN: usize = 16;
/// Number of failed attempts after which an account that another process locks gets a dedicated transaction.
const LOCKED_ATTEMPTS_MIN: u32 = 3;
/// First backoff of an account.
const BACKOFF_MIN: Duration = Duration::from_millis(2);
/// Longest backoff. The deadline of each command bounds the number of retries.
const BACKOFF_MAX: Duration = Duration::from_millis(50);

/// Reason why an attempt has run no command of an account. The account backs off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptFailure {
    /// Another transaction locks the account.
    AccountLocked,
    /// The session with the database failed before COMMIT.
    StorageFailed,
}

/// A command that has not run and must be retried.
#[derive(Debug)]
pub(super) struct RetriedCommand {
    pub(super) command: QueuedCommand,
    /// `None` if no slug was reserved for the command: the account does not back off.
    pub(super) failure: Option<AttemptFailure>,
}

/// Result of one attempt of a dedicated transaction.
#[derive(Debug, Default)]
pub(super) struct DedicatedAttempt {
    pub(super) retried: Vec<RetriedCommand>,
    /// Set if the attempt has run no command, even if the attempt has taken none from the queue.
    pub(super) failure: Option<AttemptFailure>,
}

/// Work for the tasks of a writer.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    /// Commands of several accounts, for one transaction.
    pub(super) group: Vec<QueuedCommand>,
    /// Accounts that get a dedicated transaction, which waits for the account's lock.
    pub(super) dedicated: Vec<AccountId>,
}

impl Assignment {
    pub(super) fn is_empty(&self) -> bool {
        self.group.is_empty() && self.dedicated.is_empty()
    }
}

/// Queues of the accounts. An account without commands has no queue.
#[derive(Debug, Default)]
pub(super) struct AccountQueues {
    accounts: HashMap<AccountId, AccountQueue>,
    /// Accounts whose commands may run, each once, in their turn.
    ready: VecDeque<AccountId>,
    /// Accounts that back off, by the time of their next attempt.
    backing_off: BTreeSet<(Instant, AccountId)>,
    /// Number of creates and changes that wait or run.
    commands: usize,
}

#[derive(Debug, Default)]
struct AccountQueue {
    waiting: VecDeque<QueuedCommand>,
    /// Number of creates and changes that wait.
    waiting_size: usize,
    /// Number of creates and changes in a commit group that runs.
    running: usize,
    /// Number of attempts in a row that failed, and the reason of the last one.
    failed_attempts: u32,
    last_failure: Option<AttemptFailure>,
}

impl AccountQueues {
    /// Number of creates and changes that wait or run.
    pub(super) fn len(&self) -> usize {
        self.commands
    }

    pub(super) fn next_retry_at(&self) -> Option<Instant> {
        self.backing_off.first().map(|(at, _)| *at)
    }

    /// Queues the commands of one account, or returns them if there is no room for all.
    pub(super) fn admit(&mut self, commands: Vec<QueuedCommand>) -> Result<(), Vec<QueuedCommand>> {
        let Some(first) = commands.first() else {
            return Ok(());
        };
        let account_id = first.command.account_id();
        let size: usize = commands.iter().map(|queued| queued.command.size()).sum();
        let of_account = self.accounts.get(&account_id);
        let of_account = of_account.map_or(0, |queue| queue.waiting_size + queue.running);
        if self.commands + size > COMMANDS_MAX || of_account + size > ACCOUNT_COMMANDS_MAX {
            return Err(commands);
        }
        self.commands += size;
        let queue = match self.accounts.entry(account_id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.ready.push_back(account_id);
                entry.insert(AccountQueue::default())
            }
        };
        queue.waiting_size += size;
        queue.waiting.extend(commands);
        Ok(())
    }

    /// Takes the work that can begin now. Commands past their deadline are answered.
    pub(super) fn take(&mut self, now: Instant, free_dedicated: usize) -> Assignment {
        self.end_backoffs(now);
        let mut assignment = Assignment::default();
        let mut room = GroupRoom::new();
        while !room.is_full()
            && let Some(account_id) = self.ready.pop_front()
        {
            self.expire(account_id, now);
            let Entry::Occupied(mut entry) = self.accounts.entry(account_id) else {
                continue;
            };
            let queue = entry.get_mut();
            if queue.waiting.is_empty() {
                entry.remove();
            } else if queue.wants_dedicated() && assignment.dedicated.len() < free_dedicated {
                assignment.dedicated.push(account_id);
            } else {
                queue.take_into(&mut assignment.group, &mut room, ACCOUNT_SHARE_MAX);
            }
        }
        assignment
    }

    /// Takes the commands of an account that has a dedicated transaction. Commands past their deadline are answered.
    pub(super) fn take_of(&mut self, account_id: AccountId, now: Instant) -> Vec<QueuedCommand> {
        let mut group = Vec::new();
        // The dedicated transaction keeps the queue, even an empty one, until it has finished.
        self.expire(account_id, now);
        if let Some(queue) = self.accounts.get_mut(&account_id) {
            queue.take_into(&mut group, &mut GroupRoom::new(), GROUP_COMMANDS_MAX);
        }
        group
    }

    /// Ends the attempt of a commit group. `accounts` are all accounts of the commit group.
    pub(super) fn finish_group(
        &mut self,
        accounts: HashSet<AccountId>,
        retried: Vec<RetriedCommand>,
        now: Instant,
    ) {
        let mut by_account: HashMap<AccountId, Vec<RetriedCommand>> = HashMap::new();
        for retried in retried {
            let account_id = retried.command.command.account_id();
            by_account.entry(account_id).or_default().push(retried);
        }
        for account_id in accounts {
            let retried = by_account.remove(&account_id).unwrap_or_default();
            let failure = retried.iter().find_map(|retried| retried.failure);
            self.finish(account_id, retried, failure);
            self.schedule(account_id, now);
        }
    }

    /// Ends the attempt of a dedicated transaction. Returns true if the account keeps the transaction for another
    /// attempt.
    pub(super) fn finish_dedicated(
        &mut self,
        account_id: AccountId,
        attempt: DedicatedAttempt,
        now: Instant,
    ) -> bool {
        let waiting = self.finish(account_id, attempt.retried, attempt.failure);
        let keeps_dedicated = attempt.failure.is_none() && waiting > ACCOUNT_SHARE_MAX;
        if !keeps_dedicated {
            self.schedule(account_id, now);
        }
        keeps_dedicated
    }

    /// Puts the commands that have not run before the others of the account, in their order. Returns
    /// the number of creates and changes that wait.
    fn finish(
        &mut self,
        account_id: AccountId,
        retried: Vec<RetriedCommand>,
        failure: Option<AttemptFailure>,
    ) -> usize {
        let Some(queue) = self.accounts.get_mut(&account_id) else {
            return 0;
        };
        let sizes = retried.iter().map(|retried| retried.command.command.size());
        let retried_size: usize = sizes.sum();
        self.commands -= queue.running - retried_size;
        queue.running = 0;
        queue.waiting_size += retried_size;
        for retried in retried.into_iter().rev() {
            queue.waiting.push_front(retried.command);
        }
        queue.last_failure = failure;
        queue.failed_attempts = failure.map_or(0, |_| queue.failed_attempts + 1);
        queue.waiting_size
    }

    /// Schedules the next attempt of the account, or removes the queue if no command waits.
    fn schedule(&mut self, account_id: AccountId, now: Instant) {
        let Some(queue) = self.accounts.get(&account_id) else {
            return;
        };
        if queue.waiting.is_empty() {
            self.accounts.remove(&account_id);
        } else if queue.last_failure.is_none() {
            self.ready.push_back(account_id);
        } else {
            self.backing_off.insert((now + queue.backoff(), account_id));
        }
    }

    fn end_backoffs(&mut self, now: Instant) {
        while let Some((retry_at, account_id)) = self.backing_off.first().copied()
            && retry_at <= now
        {
            self.backing_off.pop_first();
            self.ready.push_back(account_id);
        }
    }

    /// Answers the commands of the account past their deadline.
    fn expire(&mut self, account_id: AccountId, now: Instant) {
        let Some(queue) = self.accounts.get_mut(&account_id) else {
            return;
        };
        // The commands are in the order of their deadlines.
        while let Some(command) = queue
            .waiting
            .pop_front_if(|command| command.deadline() <= now)
        {
            let size = command.command.size();
            command.answer(Err(match queue.last_failure {
                Some(AttemptFailure::StorageFailed) => Unavailable::StorageUnavailable,
                Some(AttemptFailure::AccountLocked) | None => Unavailable::Overloaded,
            }));
            queue.waiting_size -= size;
            self.commands -= size;
        }
    }
}

impl AccountQueue {
    /// Returns true if the account must not share a transaction with other accounts.
    fn wants_dedicated(&self) -> bool {
        let is_locked = self.last_failure == Some(AttemptFailure::AccountLocked);
        let waiting = self.waiting_size;
        waiting > ACCOUNT_SHARE_MAX
            || is_locked
                && (waiting >= LOCKED_COMMANDS_MIN || self.failed_attempts >= LOCKED_ATTEMPTS_MIN)
    }

    fn backoff(&self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failed_attempts.saturating_sub(1));
        BACKOFF_MIN.saturating_mul(doubled).min(BACKOFF_MAX)
    }

    /// Moves commands from the front of the queue into the commit group, while there is room.
    fn take_into(
        &mut self,
        group: &mut Vec<QueuedCommand>,
        room: &mut GroupRoom,
        count_max: usize,
    ) {
        while self.running < count_max
            && !room.is_full()
            && let Some(command) = self.waiting.pop_front()
        {
            let size = command.command.size();
            room.fill(&command.command);
            self.waiting_size -= size;
            self.running += size;
            group.push(command);
        }
    }
}

/// Room that is left in a commit group.
struct GroupRoom {
    commands: usize,
    bytes: usize,
}

impl GroupRoom {
    const fn new() -> Self {
        Self {
            commands: GROUP_COMMANDS_MAX,
            bytes: GROUP_BYTES_MAX,
        }
    }

    const fn is_full(&self) -> bool {
        self.commands == 0 || self.bytes == 0
    }

    fn fill(&mut self, command: &LinkCommand) {
        let least = match command {
            LinkCommand::Batch(_) => BATCH_COMMANDS_MIN,
            LinkCommand::Create(_) | LinkCommand::Change(_) => 0,
        };
        self.commands = self.commands.saturating_sub(command.size().max(least));
        self.bytes = self.bytes.saturating_sub(command.destination_bytes());
    }
}

#[cfg(test)]
mod tests;
