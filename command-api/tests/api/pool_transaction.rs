//! Transactions of pools that are cancelled.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use linkledger_core::event_store::{self, SessionKind, transaction::PoolTransaction};
use linkledger_testing::TestDatabase;
use sqlx::PgPool;

/// Most polls before a future is dropped. BEGIN is sent after four or five.
const POLLS_MAX: usize = 50;

/// Polls the future a number of times, or until it is done, and drops it.
async fn drop_after<T>(polls: usize, future: impl Future<Output = T>) {
    let mut future = pin!(future);
    for _ in 0..polls {
        tokio::task::yield_now().await;
        let is_done =
            poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        if is_done {
            return;
        }
    }
}

/// Returns the id of the server process that the next statement of the pool runs in.
async fn server_process(pool: &PgPool) -> i32 {
    let pid = sqlx::query_scalar("SELECT pg_backend_pid()");
    pid.fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn cancelled_begin_leaves_no_transaction_in_pool() {
    let database = TestDatabase::create().await;
    let pool = event_store::pool(database.url(), SessionKind::Writer, 1).unwrap();
    for polls in 0..POLLS_MAX {
        // A session that exists is used at once.
        server_process(&pool).await;
        drop_after(polls, PoolTransaction::begin(&pool)).await;
        let process = server_process(&pool).await;
        let state = sqlx::query_scalar("SELECT state FROM pg_stat_activity WHERE pid = $1");
        let state: String = state
            .bind(process)
            .fetch_one(database.pool())
            .await
            .unwrap();
        assert_eq!(state, "idle", "dropped after {polls} polls");
    }
}
