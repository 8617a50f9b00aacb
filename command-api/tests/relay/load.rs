//! Load: appends to the log while a test breaks relay or broker.

use std::time::Duration;

use axum::Router;
use linkledger_core::api_key::Scope;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use sqlx::PgPool;
use tokio::{task::JoinHandle, time::interval};
use tokio_util::sync::CancellationToken;

use crate::{
    fixture::published_of,
    support::{create, destination, fresh_key, send},
};

/// Number of accounts: enough for several shards.
const ACCOUNTS: usize = 8;
/// Interval between appends: the embedded broker keeps all records, and some event is always in
/// flight.
const PACE: Duration = Duration::from_millis(10);

/// Running load.
pub(crate) struct Load {
    stop: CancellationToken,
    working: JoinHandle<usize>,
}

impl Load {
    /// Starts a load that appends links to the log directly.
    pub(crate) async fn append(database: &TestDatabase) -> Self {
        let pool = database.pool().clone();
        let mut accounts = Vec::new();
        for _ in 0..ACCOUNTS {
            accounts.push(testing::account(&pool, 1_000_000).await);
        }
        Self::start(move |nth| {
            let (pool, account_id) = (pool.clone(), accounts[nth % ACCOUNTS]);
            async move {
                let slugs = [0, 1].map(|one| format!("load-{nth}-{one}"));
                let links = slugs.each_ref().map(|it| (&**it, "https://example.com"));
                testing::append_links(&pool, account_id, &links).await;
            }
        })
    }

    /// Starts a load of requests to the API; a failed request fails the test.
    pub(crate) async fn create(database: &TestDatabase, router: Router) -> Self {
        let pool = database.pool();
        let mut keys = Vec::new();
        for _ in 0..ACCOUNTS {
            let account_id = testing::account(pool, 1_000_000).await;
            keys.push(testing::api_key(pool, account_id, &Scope::ALL).await);
        }
        Self::start(move |nth| {
            let request = create(&keys[nth % ACCOUNTS], fresh_key(), &destination());
            let router = router.clone();
            async move {
                let answer = send(&router, request).await;
                assert_eq!(answer.status, 201, "{answer:?}");
            }
        })
    }

    fn start<F: Future<Output = ()> + Send>(work: impl Fn(usize) -> F + Send + 'static) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let working = testing::in_background(async move {
            let mut pace = interval(PACE);
            let mut done = 0;
            while !stopped.is_cancelled() {
                pace.tick().await;
                work(done).await;
                done += 1;
            }
            done
        });
        Self { stop, working }
    }

    /// Stops the load, and fails if any append has failed.
    pub(crate) async fn stop(self) -> usize {
        self.stop.cancel();
        self.working.await.unwrap()
    }
}

/// Waits until `events` more are published.
pub(crate) async fn published_more(pool: &PgPool, events: i64) {
    let (begin, _) = published_of(pool).await;
    testing::eventually("events are published", async || {
        (published_of(pool).await.0 >= begin + events).then_some(())
    })
    .await;
}

/// Waits until `events` more are appended.
pub(crate) async fn appended_more(pool: &PgPool, events: i64) {
    let (_, begin) = published_of(pool).await;
    testing::eventually("events are appended", async || {
        (published_of(pool).await.1 >= begin + events).then_some(())
    })
    .await;
}

/// Prints a figure, visible with `--nocapture`.
#[expect(clippy::print_stderr, reason = "shown when it is asked for")]
pub(crate) fn report(line: &str) {
    eprintln!("{line}");
}
