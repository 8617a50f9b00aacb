use linkledger_core::{
    commands::{BatchCreate, BatchMode, IdempotencyKey, KeyedCreate},
    envelope::Metadata,
    id::KeyId,
};
use uuid::Uuid;

use super::*;
use crate::command_queue::{
    WAITING_TIME_MAX,
    in_flight::{CreatesInFlight, KeyEntry, PendingReply, ReplyReceiver},
};

const NO_DEDICATED: usize = 0;

fn account(number: u128) -> AccountId {
    AccountId::from_uuid(Uuid::from_u128(number))
}

fn create(account_number: u128, key: u128) -> KeyedCreate {
    KeyedCreate {
        account_id: account(account_number),
        key_id: KeyId::from_uuid(Uuid::nil()),
        key: IdempotencyKey(Uuid::from_u128(key)),
        fingerprint: [0; 32],
        body: Err(Vec::new()),
        metadata: Metadata::default(),
    }
}

/// A request that creates all of its links or none.
fn atomic(account_number: u128, key: u128, size: u128, queued_at: Instant) -> QueuedCommand {
    QueuedCommand {
        command: LinkCommand::Batch(BatchCreate {
            account_id: account(account_number),
            mode: BatchMode::Atomic,
            creates: (key..key + size)
                .map(|key| create(account_number, key))
                .collect(),
        }),
        queued_at,
        pending_reply: PendingReply::unkeyed(),
    }
}

/// Takes and answers all commands.
fn finish_all(queues: &mut AccountQueues, now: Instant) {
    while queues.len() > 0 {
        let group = queues.take(now, NO_DEDICATED).group;
        finish(queues, group, None, now);
    }
}

fn queued(account_number: u128, key: u128, queued_at: Instant) -> (QueuedCommand, ReplyReceiver) {
    let create = create(account_number, key);
    let KeyEntry::First(pending_reply) = CreatesInFlight::default().enter(&create) else {
        panic!("no other create has entered its key");
    };
    let reply = pending_reply.subscribe();
    let command = QueuedCommand {
        command: LinkCommand::Create(create),
        queued_at,
        pending_reply,
    };
    (command, reply)
}

/// Queues with one command for each pair of account and key.
fn queues_of(commands: &[(u128, u128)], now: Instant) -> AccountQueues {
    let mut queues = AccountQueues::default();
    for (account, key) in commands {
        admit(&mut queues, *account, *key, now);
    }
    queues
}

fn admit(queues: &mut AccountQueues, account: u128, key: u128, now: Instant) {
    let (command, _) = queued(account, key, now);
    assert!(queues.admit(vec![command]).is_ok());
}

fn keys(group: &[QueuedCommand]) -> Vec<u128> {
    let key = |queued: &QueuedCommand| match &queued.command {
        LinkCommand::Create(create) => create.key.0.as_u128(),
        LinkCommand::Batch(_) | LinkCommand::Change(_) => panic!("only creates are queued here"),
    };
    group.iter().map(key).collect()
}

/// Ends the commit group: the commands of `failed` have not run, all others are answered.
fn finish(
    queues: &mut AccountQueues,
    group: Vec<QueuedCommand>,
    failed: Option<(u128, AttemptFailure)>,
    now: Instant,
) {
    let account_of = |queued: &QueuedCommand| queued.command.account_id();
    let accounts = group.iter().map(account_of).collect();
    let retried = group.into_iter().filter_map(|command| {
        let (number, failure) = failed?;
        let failure = Some(failure);
        (account_of(&command) == account(number)).then_some(RetriedCommand { command, failure })
    });
    queues.finish_group(accounts, retried.collect(), now);
}

#[test]
fn locked_account_backs_off_alone() {
    let now = Instant::now();
    let mut queues = queues_of(&[(1, 1), (1, 2), (2, 3)], now);
    let group = queues.take(now, NO_DEDICATED).group;
    assert_eq!(keys(&group), [1, 2, 3]);
    let locked = Some((1, AttemptFailure::AccountLocked));
    finish(&mut queues, group, locked, now);

    // Before the retry is due, only the command of the other account is taken.
    admit(&mut queues, 2, 4, now);
    admit(&mut queues, 1, 5, now);
    let group = queues.take(now, NO_DEDICATED).group;
    assert_eq!(keys(&group), [4]);
    finish(&mut queues, group, None, now);
    assert_eq!(queues.next_retry_at(), Some(now + BACKOFF_MIN));

    // The next backoff is twice as long, and keeps the order of the commands.
    let due = now + BACKOFF_MIN;
    let group = queues.take(due, NO_DEDICATED).group;
    assert_eq!(keys(&group), [1, 2, 5]);
    finish(&mut queues, group, locked, due);
    assert_eq!(queues.next_retry_at(), Some(due + BACKOFF_MIN * 2));

    let free = due + BACKOFF_MAX;
    let group = queues.take(free, NO_DEDICATED).group;
    assert_eq!(keys(&group), [1, 2, 5]);
    finish(&mut queues, group, None, free);
    assert_eq!((queues.len(), queues.next_retry_at()), (0, None));
}

#[test]
fn locked_account_with_many_commands_gets_dedicated_transaction() {
    let now = Instant::now();
    let commands: Vec<_> = (0..20).map(|key| (1, key)).collect();
    let mut queues = queues_of(&commands, now);
    let group = queues.take(now, 1).group;
    assert_eq!(group.len(), 20);
    let locked = Some((1, AttemptFailure::AccountLocked));
    finish(&mut queues, group, locked, now);

    let assignment = queues.take(now + BACKOFF_MIN, 1);
    assert!(assignment.group.is_empty());
    assert_eq!(assignment.dedicated, [account(1)]);
    // Commands that arrive while the dedicated transaction waits for the lock run with the others.
    admit(&mut queues, 1, 20, now);
    let group = queues.take_of(account(1), now);
    assert_eq!(keys(&group), (0..=20).collect::<Vec<_>>());
    assert!(!queues.finish_dedicated(account(1), DedicatedAttempt::default(), now));
    assert_eq!(queues.len(), 0);
}

#[test]
fn busy_account_does_not_share_groups() {
    let now = Instant::now();
    let busy = (0..=ACCOUNT_SHARE_MAX as u128).map(|key| (1, key));
    let commands: Vec<_> = busy.chain([(2, 1_000)]).collect();
    let mut queues = queues_of(&commands, now);
    let assignment = queues.take(now, 1);
    assert_eq!(assignment.dedicated, [account(1)]);
    assert_eq!(keys(&assignment.group), [1_000]);

    // Without a free dedicated transaction, the account has a share of the commit group.
    let mut queues = queues_of(&commands, now);
    let assignment = queues.take(now, NO_DEDICATED);
    assert_eq!(assignment.group.len(), ACCOUNT_SHARE_MAX + 1);
    assert_eq!(keys(&assignment.group).last(), Some(&1_000));
}

#[test]
fn busy_account_keeps_dedicated_transaction() {
    let now = Instant::now();
    let rest = ACCOUNT_SHARE_MAX + 1;
    let keys = 0..(GROUP_COMMANDS_MAX + rest) as u128;
    let commands: Vec<_> = keys.map(|key| (1, key)).collect();
    let mut queues = queues_of(&commands, now);
    assert_eq!(queues.take(now, 1).dedicated, [account(1)]);
    assert_eq!(queues.take_of(account(1), now).len(), GROUP_COMMANDS_MAX);
    assert!(queues.finish_dedicated(account(1), DedicatedAttempt::default(), now));
    // No other commit group takes the account meanwhile.
    assert!(queues.take(now, 1).is_empty());
    assert_eq!(queues.take_of(account(1), now).len(), rest);
    assert!(!queues.finish_dedicated(account(1), DedicatedAttempt::default(), now));
    assert_eq!(queues.len(), 0);
}

#[test]
fn dedicated_transaction_keeps_account_whose_commands_expired() {
    let now = Instant::now();
    let size = ACCOUNT_SHARE_MAX as u128 + 1;
    let commands: Vec<_> = (0..size).map(|key| (1, key)).collect();
    let mut queues = queues_of(&commands, now);
    assert_eq!(queues.take(now, 1).dedicated, [account(1)]);
    let late = now + WAITING_TIME_MAX;
    assert!(queues.take_of(account(1), late).is_empty());
    // A command that arrives before the dedicated transaction has finished waits for it.
    admit(&mut queues, 1, size, late);
    assert!(queues.take(late, 1).is_empty());
    assert!(!queues.finish_dedicated(account(1), DedicatedAttempt::default(), late));
    assert_eq!(keys(&queues.take(late, NO_DEDICATED).group), [size]);
    assert_eq!(queues.len(), 1);
}

#[test]
fn account_limit_leaves_room_for_others() {
    let now = Instant::now();
    let commands: Vec<_> = (0..ACCOUNT_COMMANDS_MAX as u128)
        .map(|key| (1, key))
        .collect();
    let mut queues = queues_of(&commands, now);
    assert!(queues.admit(vec![queued(1, 9_999, now).0]).is_err());
    admit(&mut queues, 2, 1, now);
    // Running commands count too.
    let group = queues.take(now, NO_DEDICATED).group;
    assert!(queues.admit(vec![queued(1, 9_999, now).0]).is_err());
    finish(&mut queues, group, None, now);
    admit(&mut queues, 1, 9_999, now);
}

#[test]
fn creates_of_one_request_are_admitted_together() {
    let now = Instant::now();
    let most = ACCOUNT_COMMANDS_MAX as u128 - 2;
    let commands: Vec<_> = (0..most).map(|key| (1, key)).collect();
    let mut queues = queues_of(&commands, now);
    let request = |keys: [u128; 3]| keys.map(|key| queued(1, key, now).0).into();
    let refused = queues.admit(request([5_001, 5_002, 5_003]));
    assert_eq!(refused.unwrap_err().len(), 3);
    assert_eq!(queues.len(), commands.len());
    finish_all(&mut queues, now);
    assert!(queues.admit(request([5_001, 5_002, 5_003])).is_ok());
    assert_eq!(
        keys(&queues.take(now, NO_DEDICATED).group),
        [5_001, 5_002, 5_003]
    );
}

#[test]
fn atomic_request_counts_as_its_creates() {
    let now = Instant::now();
    let mut queues = AccountQueues::default();
    for number in 0..11 {
        let admitted = queues.admit(vec![atomic(1, 1_000 * number, 100, now)]);
        assert_eq!(admitted.is_ok(), number < 10, "{number}");
    }
    assert_eq!(queues.len(), 1_000);
    // The account gets a dedicated transaction, and a commit group is full with 6 requests, undivided.
    assert_eq!(queues.take(now, 1).dedicated, [account(1)]);
    assert_eq!(queues.take_of(account(1), now).len(), 6);
    assert!(queues.finish_dedicated(account(1), DedicatedAttempt::default(), now));
    assert_eq!(queues.len(), 400);
    let group = queues.take_of(account(1), now);
    assert_eq!(group.len(), 4);
    let retried = group.into_iter().map(|command| RetriedCommand {
        command,
        failure: None,
    });
    let attempt = DedicatedAttempt {
        retried: retried.collect(),
        failure: None,
    };
    assert!(queues.finish_dedicated(account(1), attempt, now));
    assert_eq!(queues.len(), 400);
    assert!(
        queues
            .take_of(account(1), now + WAITING_TIME_MAX)
            .is_empty()
    );
    assert_eq!(queues.len(), 0);
}

#[test]
fn total_limit_counts_running_commands() {
    let now = Instant::now();
    let mut queues = AccountQueues::default();
    for number in 0..COMMANDS_MAX as u128 {
        admit(&mut queues, number, number, now);
    }
    let group = queues.take(now, NO_DEDICATED).group;
    assert_eq!(group.len(), GROUP_COMMANDS_MAX);
    assert!(queues.admit(vec![queued(9_999, 1, now).0]).is_err());
    finish(&mut queues, group, None, now);
    assert_eq!(queues.len(), COMMANDS_MAX - GROUP_COMMANDS_MAX);
    admit(&mut queues, 9_999, 1, now);
}

#[tokio::test]
async fn expired_command_is_answered_by_last_failure() {
    for (failure, expected) in [
        (AttemptFailure::AccountLocked, Unavailable::Overloaded),
        (
            AttemptFailure::StorageFailed,
            Unavailable::StorageUnavailable,
        ),
    ] {
        let now = Instant::now();
        let mut queues = AccountQueues::default();
        let (command, reply) = queued(1, 1, now);
        assert!(queues.admit(vec![command]).is_ok());
        let group = queues.take(now, NO_DEDICATED).group;
        finish(&mut queues, group, Some((1, failure)), now);
        assert!(queues.take(now + WAITING_TIME_MAX, NO_DEDICATED).is_empty());
        assert_eq!((queues.len(), queues.next_retry_at()), (0, None));
        let reply = reply.receive(tokio::time::Instant::now()).await;
        assert_eq!(reply.and_then(Result::err), Some(expected));
    }
}
