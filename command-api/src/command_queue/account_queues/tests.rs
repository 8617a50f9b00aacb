use linkledger_core::{
    batch::{BulkCreate, BulkMode, IdempotencyKey, KeyedCreate},
    envelope::Metadata,
    id::KeyId,
};
use uuid::Uuid;

use super::*;
use crate::command_queue::{
    WAITING_TIME_MAX,
    in_flight::{CreatesInFlight, KeyEntry, PendingReply, ReplyReceiver},
};

const NO_LANES: usize = 0;

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
        command: LinkCommand::Bulk(BulkCreate {
            account_id: account(account_number),
            mode: BulkMode::Atomic,
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
        let batch = queues.take(now, NO_LANES).batch;
        finish(queues, batch, None, now);
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

fn keys(batch: &[QueuedCommand]) -> Vec<u128> {
    let key = |queued: &QueuedCommand| match &queued.command {
        LinkCommand::Create(create) => create.key.0.as_u128(),
        LinkCommand::Bulk(_) | LinkCommand::Change(_) => panic!("only creates are queued here"),
    };
    batch.iter().map(key).collect()
}

/// Ends the batch: the commands of `failed` have not run, all others are answered.
fn finish(
    queues: &mut AccountQueues,
    batch: Vec<QueuedCommand>,
    failed: Option<(u128, AttemptFailure)>,
    now: Instant,
) {
    let account_of = |queued: &QueuedCommand| queued.command.account_id();
    let accounts = batch.iter().map(account_of).collect();
    let retried = batch.into_iter().filter_map(|command| {
        let (number, failure) = failed?;
        let failure = Some(failure);
        (account_of(&command) == account(number)).then_some(RetriedCommand { command, failure })
    });
    queues.finish_batch(accounts, retried.collect(), now);
}

#[test]
fn locked_account_backs_off_alone() {
    let now = Instant::now();
    let mut queues = queues_of(&[(1, 1), (1, 2), (2, 3)], now);
    let batch = queues.take(now, NO_LANES).batch;
    assert_eq!(keys(&batch), [1, 2, 3]);
    let locked = Some((1, AttemptFailure::AccountLocked));
    finish(&mut queues, batch, locked, now);

    // Before the retry is due, only the command of the other account is taken.
    admit(&mut queues, 2, 4, now);
    admit(&mut queues, 1, 5, now);
    let batch = queues.take(now, NO_LANES).batch;
    assert_eq!(keys(&batch), [4]);
    finish(&mut queues, batch, None, now);
    assert_eq!(queues.next_retry_at(), Some(now + BACKOFF_MIN));

    // The next backoff is twice as long, and keeps the order of the commands.
    let due = now + BACKOFF_MIN;
    let batch = queues.take(due, NO_LANES).batch;
    assert_eq!(keys(&batch), [1, 2, 5]);
    finish(&mut queues, batch, locked, due);
    assert_eq!(queues.next_retry_at(), Some(due + BACKOFF_MIN * 2));

    let free = due + BACKOFF_MAX;
    let batch = queues.take(free, NO_LANES).batch;
    assert_eq!(keys(&batch), [1, 2, 5]);
    finish(&mut queues, batch, None, free);
    assert_eq!((queues.len(), queues.next_retry_at()), (0, None));
}

#[test]
fn locked_account_with_many_commands_gets_lane() {
    let now = Instant::now();
    let commands: Vec<_> = (0..20).map(|key| (1, key)).collect();
    let mut queues = queues_of(&commands, now);
    let batch = queues.take(now, 1).batch;
    assert_eq!(batch.len(), 20);
    let locked = Some((1, AttemptFailure::AccountLocked));
    finish(&mut queues, batch, locked, now);

    let assignment = queues.take(now + BACKOFF_MIN, 1);
    assert!(assignment.batch.is_empty());
    assert_eq!(assignment.lanes, [account(1)]);
    // Commands that arrive while the lane waits for the lock run with the others.
    admit(&mut queues, 1, 20, now);
    let batch = queues.take_of(account(1), now);
    assert_eq!(keys(&batch), (0..=20).collect::<Vec<_>>());
    assert!(!queues.finish_lane(account(1), LaneAttempt::default(), now));
    assert_eq!(queues.len(), 0);
}

#[test]
fn busy_account_does_not_share_batches() {
    let now = Instant::now();
    let busy = (0..=ACCOUNT_SHARE_MAX as u128).map(|key| (1, key));
    let commands: Vec<_> = busy.chain([(2, 1_000)]).collect();
    let mut queues = queues_of(&commands, now);
    let assignment = queues.take(now, 1);
    assert_eq!(assignment.lanes, [account(1)]);
    assert_eq!(keys(&assignment.batch), [1_000]);

    // Without a free lane, the account has a share of the batch.
    let mut queues = queues_of(&commands, now);
    let assignment = queues.take(now, NO_LANES);
    assert_eq!(assignment.batch.len(), ACCOUNT_SHARE_MAX + 1);
    assert_eq!(keys(&assignment.batch).last(), Some(&1_000));
}

#[test]
fn busy_account_keeps_lane() {
    let now = Instant::now();
    let rest = ACCOUNT_SHARE_MAX + 1;
    let keys = 0..(BATCH_COMMANDS_MAX + rest) as u128;
    let commands: Vec<_> = keys.map(|key| (1, key)).collect();
    let mut queues = queues_of(&commands, now);
    assert_eq!(queues.take(now, 1).lanes, [account(1)]);
    assert_eq!(queues.take_of(account(1), now).len(), BATCH_COMMANDS_MAX);
    assert!(queues.finish_lane(account(1), LaneAttempt::default(), now));
    // No other batch takes the account meanwhile.
    assert!(queues.take(now, 1).is_empty());
    assert_eq!(queues.take_of(account(1), now).len(), rest);
    assert!(!queues.finish_lane(account(1), LaneAttempt::default(), now));
    assert_eq!(queues.len(), 0);
}

#[test]
fn lane_keeps_account_whose_commands_expired() {
    let now = Instant::now();
    let size = ACCOUNT_SHARE_MAX as u128 + 1;
    let commands: Vec<_> = (0..size).map(|key| (1, key)).collect();
    let mut queues = queues_of(&commands, now);
    assert_eq!(queues.take(now, 1).lanes, [account(1)]);
    let late = now + WAITING_TIME_MAX;
    assert!(queues.take_of(account(1), late).is_empty());
    // A command that arrives before the lane has finished waits for the lane.
    admit(&mut queues, 1, size, late);
    assert!(queues.take(late, 1).is_empty());
    assert!(!queues.finish_lane(account(1), LaneAttempt::default(), late));
    assert_eq!(keys(&queues.take(late, NO_LANES).batch), [size]);
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
    let batch = queues.take(now, NO_LANES).batch;
    assert!(queues.admit(vec![queued(1, 9_999, now).0]).is_err());
    finish(&mut queues, batch, None, now);
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
        keys(&queues.take(now, NO_LANES).batch),
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
    // The account gets a lane, and a batch is full with 6 requests, undivided.
    assert_eq!(queues.take(now, 1).lanes, [account(1)]);
    assert_eq!(queues.take_of(account(1), now).len(), 6);
    assert!(queues.finish_lane(account(1), LaneAttempt::default(), now));
    assert_eq!(queues.len(), 400);
    let batch = queues.take_of(account(1), now);
    assert_eq!(batch.len(), 4);
    let retried = batch.into_iter().map(|command| RetriedCommand {
        command,
        failure: None,
    });
    let attempt = LaneAttempt {
        retried: retried.collect(),
        failure: None,
    };
    assert!(queues.finish_lane(account(1), attempt, now));
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
    let batch = queues.take(now, NO_LANES).batch;
    assert_eq!(batch.len(), BATCH_COMMANDS_MAX);
    assert!(queues.admit(vec![queued(9_999, 1, now).0]).is_err());
    finish(&mut queues, batch, None, now);
    assert_eq!(queues.len(), COMMANDS_MAX - BATCH_COMMANDS_MAX);
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
        let batch = queues.take(now, NO_LANES).batch;
        finish(&mut queues, batch, Some((1, failure)), now);
        assert!(queues.take(now + WAITING_TIME_MAX, NO_LANES).is_empty());
        assert_eq!((queues.len(), queues.next_retry_at()), (0, None));
        let reply = reply.receive(tokio::time::Instant::now()).await;
        assert_eq!(reply.and_then(Result::err), Some(expected));
    }
}
