//! Positions are assigned in the transaction of the append: in order of commit, without gaps.

use std::collections::HashMap;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    credits::{Credits, CreditsEvent, CreditsGranted},
    envelope::{Metadata, NewEvent},
    event::Event,
    id::{AccountId, EventId},
    shard::Shard,
};
use linkledger_event_store::{
    SessionKind, accounts, append,
    log::{self, ReadFrom},
    transaction::PoolTransaction,
};
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use sqlx::PgConnection;

/// Returns two accounts of the same shard.
async fn neighbours(database: &TestDatabase) -> [AccountId; 2] {
    let first = testing::account(database.pool(), 0).await;
    loop {
        let second = testing::account(database.pool(), 0).await;
        if Shard::of(second) == Shard::of(first) {
            return [first, second];
        }
    }
}

/// Appends a grant, without the commit.
async fn grant_in_tx(tx: &mut PgConnection, account_id: AccountId) -> sqlx::Result<i64> {
    let locked = accounts::lock_in_tx(tx, &[account_id]).await?;
    let before = locked[&account_id];
    let after = Credits {
        balance: before.balance + 1,
        version: before.version + 1,
        ..before
    };
    let now = SystemClock.now();
    let event = NewEvent {
        event_id: EventId::from_uuid(new_uuid(now)),
        account_id,
        version: after.version,
        recorded_at: now,
        event: Event::Credits(CreditsEvent::Granted(CreditsGranted {
            account_id,
            amount: 1,
            balance_after: after.balance,
            reason: "test".to_owned(),
            reference: None,
            description: None,
        })),
        metadata: Metadata::default(),
        idempotency: None,
    };
    let after = HashMap::from([(account_id, after)]);
    append::append_in_tx(tx, &[&event], &after)
        .await
        .map(|appended| appended[0].position)
}

async fn read(database: &TestDatabase, shard: Shard) -> Vec<i64> {
    let from = ReadFrom { shard, after: 0 };
    let events = log::read_after(database.pool(), &[from], 100)
        .await
        .unwrap();
    events.iter().map(|event| event.position).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_appends_show_readers_no_gap() {
    let database = TestDatabase::create().await;
    let [first, second] = neighbours(&database).await;
    let shard = Shard::of(first);
    let mut tx = PoolTransaction::begin(database.pool()).await.unwrap();
    assert_eq!(grant_in_tx(&mut tx, first).await.unwrap(), 1);

    let pool = database.pool().clone();
    let waiting = testing::in_background(async move {
        let mut tx = PoolTransaction::begin(&pool).await.unwrap();
        let position = grant_in_tx(&mut tx, second).await.unwrap();
        tx.commit().await.unwrap();
        position
    });
    testing::eventually("the second append waits for the counter", || async {
        let waiting = testing::sessions_waiting_for_lock(database.pool()).await;
        (waiting == 1).then_some(())
    })
    .await;
    assert_eq!(read(&database, shard).await, [0; 0]);

    tx.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap(), 2);
    assert_eq!(read(&database, shard).await, [1, 2]);
}

#[tokio::test]
async fn rolled_back_append_leaves_no_gap() {
    let database = TestDatabase::create().await;
    let [first, second] = neighbours(&database).await;
    let mut tx = PoolTransaction::begin(database.pool()).await.unwrap();
    assert_eq!(grant_in_tx(&mut tx, first).await.unwrap(), 1);
    tx.rollback().await.unwrap();
    let mut tx = PoolTransaction::begin(database.pool()).await.unwrap();
    assert_eq!(grant_in_tx(&mut tx, second).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(read(&database, Shard::of(first)).await, [1]);
}

#[tokio::test]
async fn frozen_append_session_is_terminated() {
    let database = TestDatabase::create().await;
    let [first, second] = neighbours(&database).await;
    // A session with the settings of a writer that falls silent, as in a stopped process.
    let writers = linkledger_event_store::pool(database.url(), SessionKind::Writer, 2).unwrap();
    let mut frozen = PoolTransaction::begin(&writers).await.unwrap();
    grant_in_tx(&mut frozen, first).await.unwrap();

    let position = testing::eventually("another append gets the counter", || async {
        let mut tx = PoolTransaction::begin(&writers).await.unwrap();
        let position = grant_in_tx(&mut tx, second).await.ok()?;
        tx.commit().await.unwrap();
        Some(position)
    })
    .await;
    assert_eq!(position, 1);
    assert!(frozen.commit().await.is_err());
    assert_eq!(read(&database, Shard::of(first)).await, [1]);
}

#[tokio::test]
async fn read_after_honours_position_and_limit() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 10).await;
    let links: Vec<String> = (0..5).map(|n| format!("slug-{n}")).collect();
    let links: Vec<_> = links
        .iter()
        .map(|slug| (slug.as_str(), "https://example.com"))
        .collect();
    testing::append_links(database.pool(), account_id, &links).await;
    let shard = Shard::of(account_id);
    for (after, expected) in [
        (0, vec![1, 2, 3]),
        (7, vec![8, 9, 10]),
        (9, vec![10]),
        (10, vec![]),
    ] {
        let events = log::read_after(database.pool(), &[ReadFrom { shard, after }], 3).await;
        let positions: Vec<i64> = events.unwrap().iter().map(|event| event.position).collect();
        assert_eq!(positions, expected);
    }
    assert_eq!(
        log::heads(database.pool()).await.unwrap()[shard.index()],
        10
    );
}

#[tokio::test]
async fn unique_constraints_of_events_contain_shard() {
    let database = TestDatabase::create().await;
    let without_shard: Vec<(String,)> = sqlx::query_as(
        "SELECT i.indexrelid::regclass::text FROM pg_index AS i
         WHERE i.indrelid = 'event_store.events'::regclass AND i.indisunique
           AND NOT EXISTS (
               SELECT FROM pg_attribute AS a
               WHERE a.attrelid = i.indrelid AND a.attname = 'shard' AND a.attnum = ANY(i.indkey))",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    assert_eq!(without_shard, []);
}
