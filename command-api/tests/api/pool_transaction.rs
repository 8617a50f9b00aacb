//! Transactions of pools that are cancelled.

use std::time::Duration;

use futures::FutureExt as _;
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_testing::{TestDatabase, eventually, sessions_waiting_for_lock};
use sqlx::{Acquire as _, PgPool, postgres::PgPoolOptions};

/// Begins a transaction with a lock that one transaction holds at a time.
const BEGIN_LOCKED: &str = "BEGIN; LOCK TABLE event_store.accounts";

/// Returns a pool of one session without timeouts of the server.
fn pool_of_one(database: &TestDatabase) -> PgPool {
    let options = PgPoolOptions::new().max_connections(1);
    let options = options.acquire_timeout(Duration::from_mins(2));
    options.connect_lazy(database.url()).unwrap()
}

/// Waits until one session of the database waits for a lock.
async fn lock_is_awaited(database: &TestDatabase) {
    eventually("a session waits for a lock", async || {
        (sessions_waiting_for_lock(database.pool()).await == 1).then_some(())
    })
    .await;
}

/// Returns what the session of the pool does after its statement, as Postgres names it.
async fn state_of_session(pool: &PgPool, database: &TestDatabase) -> String {
    let process = sqlx::query_scalar("SELECT pg_backend_pid()");
    let process: i32 = process.fetch_one(pool).await.unwrap();
    let state = sqlx::query_scalar("SELECT state FROM pg_stat_activity WHERE pid = $1");
    state
        .bind(process)
        .fetch_one(database.pool())
        .await
        .unwrap()
}

#[tokio::test]
async fn cancelled_begin_leaves_no_transaction_in_pool() {
    let database = TestDatabase::create().await;
    let (holders, pool) = (pool_of_one(&database), pool_of_one(&database));
    let holder = PoolTransaction::begin_with(&holders, BEGIN_LOCKED)
        .await
        .unwrap();
    tokio::select! {
        begun = PoolTransaction::begin_with(&pool, BEGIN_LOCKED) => panic!("{begun:?}"),
        () = lock_is_awaited(&database) => {}
    }
    holder.rollback().await.unwrap();
    assert_eq!(state_of_session(&pool, &database).await, "idle");
}

#[tokio::test]
async fn dropped_transaction_is_rolled_back() {
    let database = TestDatabase::create().await;
    let pool = pool_of_one(&database);
    drop(
        PoolTransaction::begin_with(&pool, BEGIN_LOCKED)
            .await
            .unwrap(),
    );
    assert_eq!(state_of_session(&pool, &database).await, "idle");
}

#[tokio::test]
async fn commit_after_cancelled_savepoint_is_an_error() {
    let database = TestDatabase::create().await;
    let pool = pool_of_one(&database);
    let mut attempts = 0;
    let tx = loop {
        let mut tx = PoolTransaction::begin(&pool).await.unwrap();
        // The first poll sends SAVEPOINT; a server that answers within the same poll cancels nothing.
        if tx.begin().now_or_never().is_none() {
            break tx;
        }
        attempts += 1;
        assert!(attempts < 100, "each SAVEPOINT was answered at once");
    };
    let error = tx.commit().await.unwrap_err();
    assert!(
        error.to_string().contains("rolled the transaction back"),
        "{error}"
    );
}
