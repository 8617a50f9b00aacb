//! The commands that a writer has taken over, in arrival order.
//!
//! An account that another process holds is probed with its oldest command, less and less often;
//! its other commands stand aside meanwhile, so that they hold nobody up.

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

use super::{GivenBack, Queued, Refusal, Reply};

/// Most commands of one batch.
const BATCH_COMMANDS_MAX: usize = 512;
/// Most bytes of addresses in one batch; the largest address has 2 KiB.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// First delay before an account that is held elsewhere is probed again.
const PROBE_DELAY_MIN: Duration = Duration::from_millis(2);
/// Longest such delay; bounded in number by each command's deadline.
const PROBE_DELAY_MAX: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Waiting {
    commands: VecDeque<Queued>,
    held: HashMap<AccountId, Probe>,
}

/// When an account that is held elsewhere is tried again.
#[derive(Debug, Clone, Copy)]
struct Probe {
    at: Instant,
    delay: Duration,
}

impl Waiting {
    pub(super) fn admit(&mut self, command: Queued) {
        self.commands.push_back(command);
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether a batch could be taken.
    pub(super) fn has_ready(&self, now: Instant) -> bool {
        let is_ready = |command: &Queued| {
            let probe = self.held.get(&command.command.account_id());
            probe.is_none_or(|probe| probe.at <= now) || command.deadline <= now
        };
        self.commands.iter().any(is_ready)
    }

    /// When the next held account is to be tried again.
    pub(super) fn next_probe_at(&self) -> Option<Instant> {
        self.held.values().map(|probe| probe.at).min()
    }

    pub(super) async fn until_next_probe(&self) {
        if let Some(at) = self.next_probe_at() {
            tokio::time::sleep_until(at.into()).await;
        }
    }

    /// What can run, up to the bounds of a batch. Commands that waited too long are answered.
    pub(super) fn take_batch(&mut self, now: Instant) -> Vec<Queued> {
        let (mut batch, mut aside) = (Vec::new(), VecDeque::new());
        let mut probed = HashSet::new();
        let mut bytes = 0;
        while batch.len() < BATCH_COMMANDS_MAX && bytes < BATCH_BYTES_MAX {
            let Some(command) = self.commands.pop_front() else {
                break;
            };
            let account_id = command.command.account_id();
            if command.deadline <= now {
                counter!(COMMANDS_EXPIRED_TOTAL).increment(1);
                command.answer(Reply::Refused(Refusal::Overloaded));
                continue;
            }
            let is_held = self.held.get(&account_id);
            if is_held.is_some_and(|probe| probe.at > now || !probed.insert(account_id)) {
                aside.push_back(command);
                continue;
            }
            bytes += bytes_of(&command.command);
            batch.push(command);
        }
        aside.append(&mut self.commands);
        self.commands = aside;
        self.held.retain(|account_id, _| {
            let is_theirs = |command: &Queued| command.command.account_id() == *account_id;
            probed.contains(account_id) || self.commands.iter().any(is_theirs)
        });
        batch
    }

    /// Takes commands back that did not run, in their order and before all others. `accounts` are
    /// all that the batch had commands of.
    pub(super) fn take_back(
        &mut self,
        accounts: HashSet<AccountId>,
        given_back: Vec<GivenBack>,
        now: Instant,
    ) {
        let held: HashSet<AccountId> = given_back
            .iter()
            .filter(|it| it.is_held)
            .map(|it| it.command.command.account_id())
            .collect();
        for account_id in accounts {
            if held.contains(&account_id) {
                let last = self.held.get(&account_id);
                let delay = last.map_or(PROBE_DELAY_MIN, |it| (it.delay * 2).min(PROBE_DELAY_MAX));
                self.held.insert(
                    account_id,
                    Probe {
                        at: now + delay,
                        delay,
                    },
                );
            } else {
                self.held.remove(&account_id);
            }
        }
        for GivenBack { command, .. } in given_back.into_iter().rev() {
            self.commands.push_front(command);
        }
    }
}

/// What it brings into the batch beyond its fixed size.
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
    use crate::command_queue::in_flight::{InFlight, Ticket};

    fn queued(account: u128, key: u128, deadline: Instant) -> Queued {
        let create = KeyedCreate {
            account_id: AccountId::from_uuid(Uuid::from_u128(account)),
            key: IdempotencyKey(Uuid::from_u128(key)),
            fingerprint: [0; 32],
            body: Err(Vec::new()),
            metadata: Metadata::default(),
        };
        let Ticket::First(pending) = InFlight::default().enter(&create) else {
            panic!("nobody else has entered");
        };
        Queued {
            command: LinkCommand::Create(create),
            deadline,
            pending,
        }
    }

    fn keys(batch: &[Queued]) -> Vec<u128> {
        batch
            .iter()
            .map(|queued| match &queued.command {
                LinkCommand::Create(create) => create.key.0.as_u128(),
                LinkCommand::Change(_) => panic!("only creates are queued here"),
            })
            .collect()
    }

    fn accounts(batch: &[Queued]) -> HashSet<AccountId> {
        batch
            .iter()
            .map(|queued| queued.command.account_id())
            .collect()
    }

    /// Gives those of account 1 back as held.
    fn held(batch: Vec<Queued>) -> Vec<GivenBack> {
        let is_first = |command: &Queued| command.command.account_id().uuid().as_u128() == 1;
        let of_first = batch.into_iter().filter(is_first);
        of_first
            .map(|command| GivenBack {
                command,
                is_held: true,
            })
            .collect()
    }

    #[test]
    fn a_held_account_is_probed_while_the_others_go_on() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let mut waiting = Waiting::default();
        for (account, key) in [(1, 1), (1, 2), (2, 3)] {
            waiting.admit(queued(account, key, later));
        }
        let batch = waiting.take_batch(now);
        assert_eq!(keys(&batch), [1, 2, 3]);
        let accounts_of_batch = accounts(&batch);
        waiting.take_back(accounts_of_batch, held(batch), now);

        // Not due yet: another account's command runs alone, and nothing else is ready then.
        waiting.admit(queued(2, 4, later));
        waiting.admit(queued(1, 5, later));
        assert_eq!(keys(&waiting.take_batch(now)), [4]);
        assert!(!waiting.has_ready(now));
        assert_eq!(waiting.next_probe_at(), Some(now + PROBE_DELAY_MIN));

        // Due: one probe, in vain; the next one comes later.
        let due = now + PROBE_DELAY_MIN;
        let probe = waiting.take_batch(due);
        assert_eq!(keys(&probe), [1]);
        waiting.take_back(accounts(&probe), held(probe), due);
        assert_eq!(waiting.next_probe_at(), Some(due + PROBE_DELAY_MIN * 2));

        // Free again: all of them, in their order.
        let free = due + PROBE_DELAY_MAX;
        let probe = waiting.take_batch(free);
        assert_eq!(keys(&probe), [1]);
        waiting.take_back(accounts(&probe), Vec::new(), free);
        assert_eq!(keys(&waiting.take_batch(free)), [2, 5]);
        assert!(waiting.is_empty() && waiting.next_probe_at().is_none());
    }

    #[test]
    fn a_command_that_waited_too_long_is_answered_even_if_its_account_is_held() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        waiting.admit(queued(1, 1, now + PROBE_DELAY_MIN / 2));
        let batch = waiting.take_batch(now);
        waiting.take_back(accounts(&batch), held(batch), now);
        let expired = now + PROBE_DELAY_MIN / 2;
        assert!(waiting.has_ready(expired));
        assert!(waiting.take_batch(expired).is_empty() && waiting.is_empty());
        assert_eq!(waiting.next_probe_at(), None);
    }

    #[test]
    fn a_batch_is_bounded() {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        for key in 0..2 * BATCH_COMMANDS_MAX as u128 {
            waiting.admit(queued(1, key, now + PROBE_DELAY_MAX));
        }
        assert_eq!(waiting.take_batch(now).len(), BATCH_COMMANDS_MAX);
        assert_eq!(waiting.len(), BATCH_COMMANDS_MAX);
    }
}
