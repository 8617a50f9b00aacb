//! A Postgres server that is stopped and started again, or that accepts no writes for a while.

use std::time::{Duration, Instant};

use axum::Router;
use linkledger_core::api_key::ApiKey;
use linkledger_testing::{TestDatabase, eventually, stream::Stream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    relay_fixture::{DRAIN_TIME_MAX, drained},
    support::{TestApp, create, destination, fresh_key, send},
};

/// Shortest outage, in seconds.
const OUTAGE_MIN: Duration = Duration::from_secs(2);
/// Shortest time for which a create waits for the server: that of the look-up of a key. An earlier failure
/// would have had time left.
const WAITING_TIME_MIN: Duration = Duration::from_secs(3);
const CLIENTS: usize = 16;
/// Number of failures after which a client gives up.
const FAILURES_MAX: usize = 1_000;
const BALANCE: i64 = 1_000_000;

/// Sends creates until `stop`. Returns their number, and the failures of creates with time left. A
/// failed create is sent again with its key until the answer is 201.
async fn create_until(
    stop: CancellationToken,
    router: Router,
    key: ApiKey,
) -> (i64, Vec<(u16, String)>) {
    let (mut created, mut failures) = (0, Vec::new());
    while !stop.is_cancelled() {
        let idempotency_key = fresh_key();
        let body = destination();
        loop {
            let sent_at = Instant::now();
            let answer = send(&router, create(&key, idempotency_key, &body)).await;
            if answer.status == 201 {
                break;
            }
            if sent_at.elapsed() < WAITING_TIME_MIN {
                failures.push((answer.status.as_u16(), answer.problem()));
                assert!(failures.len() < FAILURES_MAX, "{failures:?}");
            }
        }
        created += 1;
    }
    (created, failures)
}

async fn created_more(app: &TestApp, links: i64) {
    let before = app.count("LinkCreated").await;
    eventually("links are created", async || {
        (app.count("LinkCreated").await >= before + links).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_restart_fails_no_create() {
    let (database, mut server) = TestDatabase::with_own_server().await;
    let url = database.url().to_owned();
    let app = TestApp::start_on(database, &url, 0).await;
    let mut accounts = Vec::new();
    for _ in 0..CLIENTS {
        let (account_id, key) = app.account(BALANCE).await;
        // The key is looked up before the restart.
        app.link(&key).await;
        accounts.push((account_id, key));
    }
    let stop = CancellationToken::new();
    let mut clients = JoinSet::new();
    for (_, key) in &accounts {
        clients.spawn(create_until(stop.clone(), app.router.clone(), key.clone()));
    }
    created_more(&app, 100).await;

    let stopped_at = Instant::now();
    server.stop().await.unwrap();
    eventually("the outage is over", async || {
        (stopped_at.elapsed() >= OUTAGE_MIN).then_some(())
    })
    .await;
    server.start_again().await.unwrap();

    created_more(&app, 100).await;
    stop.cancel();
    let mut created = i64::try_from(CLIENTS).unwrap();
    while let Some(client) = clients.join_next().await {
        let (count, failures) = client.unwrap();
        assert!(failures.is_empty(), "{failures:?}");
        created += count;
    }
    assert_eq!(app.count("LinkCreated").await, created);
    assert_eq!(app.count("CreditsCharged").await, created);
    let mut paid = 0;
    for (account_id, _) in &accounts {
        paid += BALANCE - app.balance(*account_id).await;
    }
    assert_eq!(paid, created);
}

/// Sessions keep the setting of their begin, so the relay has to connect again.
#[tokio::test(flavor = "multi_thread")]
async fn relay_leaves_read_only_session() {
    let app = TestApp::start().await;
    let (_, key) = app.account(10).await;
    app.link(&key).await;
    let pool = app.database.pool();
    let mut owner = pool.acquire().await.unwrap();
    let set = |value: &str| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {value}', \
             current_database()); END $$"
        )))
    };
    set("on").execute(&mut *owner).await.unwrap();
    // After the commit of the setting: a session that connects earlier would be writable.
    sqlx::raw_sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name <> 'test'",
    )
    .execute(&mut *owner)
    .await
    .unwrap();
    // A relay gives its lease back through a session that ends later than the others.
    eventually("the relay has no lease", async || {
        let leased = "SELECT bool_or(lease_expires_at >= now()) FROM event_store.relay_cursors";
        let leased: Option<bool> = sqlx::query_scalar(leased).fetch_one(pool).await.unwrap();
        (leased != Some(true)).then_some(())
    })
    .await;
    set("off").execute(&mut *owner).await.unwrap();
    app.link(&key).await;
    drained(pool, DRAIN_TIME_MAX).await;
    Stream::assert_is_the_log(&app.broker.config(), pool).await;
}
