use futures::future::join_all;
use linkledger_testing::TestDatabase;
use serde_json::json;
use url::Url;

use crate::{
    proxy::{Fault, Proxy},
    support::{TestApp, change, create, delete, destination, fresh_key, link, send},
};

async fn behind_a_proxy() -> (TestApp, Proxy) {
    let database = TestDatabase::create().await;
    let mut url = Url::parse(database.url()).unwrap();
    let proxy = Proxy::start(url.port().unwrap()).await;
    url.set_port(Some(proxy.port)).unwrap();
    let app = TestApp::start_on(database, url.as_str(), 0).await;
    (app, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_commit_answer_is_looked_up() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(10).await;
    let idempotency_key = fresh_key();
    proxy.break_next(Fault::AfterCommit);
    let answer = send(&app.router, create(&key, idempotency_key, &link("spring"))).await;
    assert_eq!(proxy.broken(), 1);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(app.count("LinkCreated").await, 1);
    assert_eq!(app.balance(account_id).await, 9);
    let again = send(&app.router, create(&key, idempotency_key, &link("spring"))).await;
    assert_eq!(again.body, answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_lost_before_server_is_retried() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(10).await;
    let idempotency_key = fresh_key();
    proxy.break_next(Fault::BeforeCommit);
    let mut answer = send(&app.router, create(&key, idempotency_key, &link("spring"))).await;
    assert_eq!(proxy.broken(), 1);
    if answer.status == 503 {
        // The commit was found to be missing, but after the deadline for a retry.
        answer = send(&app.router, create(&key, idempotency_key, &link("spring"))).await;
    }
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(app.count("LinkCreated").await, 1);
    assert_eq!(app.balance(account_id).await, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn unresolvable_commit_returns_504() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(10).await;
    let idempotency_key = fresh_key();
    proxy.break_next(Fault::AfterCommitForLong);
    let answer = send(&app.router, create(&key, idempotency_key, &link("spring"))).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (504, "deadline_exceeded")
    );
    assert_eq!(answer.json()["may_have_succeeded"], true);
    assert_eq!(answer.header("retry-after"), "1");
    proxy.mend();
    let again = send(&app.router, create(&key, idempotency_key, &link("spring"))).await;
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(app.balance(account_id).await, 9);
}

/// Repeats the fault as often as there are writers, to prove that no writer loses its session.
#[tokio::test(flavor = "multi_thread")]
async fn server_silent_before_commit_returns_503() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(10).await;
    for times in 1..=2 {
        proxy.break_next(Fault::SilenceFrom("BEGIN"));
        let answer = send(&app.router, create(&key, fresh_key(), &destination())).await;
        assert_eq!(proxy.broken(), times);
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (503, "storage_unavailable")
        );
    }
    let answer = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(app.count("LinkCreated").await, 1);
    assert_eq!(app.balance(account_id).await, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_silent_at_commit_creates_once() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(10).await;
    for (fault, slug) in [
        (Fault::SilenceFrom("COMMIT"), "repeated"),
        (Fault::SilenceAfterCommit, "found"),
    ] {
        let idempotency_key = fresh_key();
        proxy.break_next(fault);
        let mut answer = send(&app.router, create(&key, idempotency_key, &link(slug))).await;
        if answer.status == 503 {
            // The commit was found to be missing, but after the deadline for a retry.
            answer = send(&app.router, create(&key, idempotency_key, &link(slug))).await;
        }
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    assert_eq!(proxy.broken(), 2);
    assert_eq!(app.count("LinkCreated").await, 2);
    assert_eq!(app.balance(account_id).await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_lookup_on_silent_server_returns_503() {
    let (app, proxy) = behind_a_proxy().await;
    let (_, key) = app.account(10).await;
    proxy.break_next(Fault::SilenceFrom("event_store.api_keys"));
    let answer = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(proxy.broken(), 1);
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (503, "storage_unavailable")
    );
    let answer = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn change_with_lost_commit_happens_once() {
    let (app, proxy) = behind_a_proxy().await;
    let (_, key) = app.account(10).await;
    let id = app.link(&key).await;
    for (changes, fault) in [(1, Fault::AfterCommit), (2, Fault::BeforeCommit)] {
        let body = json!({ "destination_url": format!("https://example.com/{changes}") });
        proxy.break_next(fault);
        let mut answer = send(&app.router, change(&key, &id, &body)).await;
        assert_eq!(proxy.broken(), changes);
        if fault == Fault::BeforeCommit && answer.status == 503 {
            // The commit was found to be missing, but after the deadline for a retry.
            let appended = app.count("LinkDestinationChanged").await;
            assert_eq!(usize::try_from(appended), Ok(changes - 1));
            answer = send(&app.router, change(&key, &id, &body)).await;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("etag"), format!("\"{}\"", changes + 1));
        let appended = app.count("LinkDestinationChanged").await;
        assert_eq!(usize::try_from(appended), Ok(changes));
    }
    // 204 means that the deletion is committed.
    proxy.break_next(Fault::AfterCommit);
    let answer = send(&app.router, delete(&key, &id)).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    assert_eq!(app.count("LinkDeleted").await, 1);
}

/// Ends all sessions of the service but that of this test.
async fn end_sessions(app: &TestApp) -> i64 {
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()
                   AND query LIKE '%event_store.accounts%'";
    let mut session = app.database.pool().acquire().await.unwrap();
    sqlx::query_scalar(ended)
        .fetch_one(&mut *session)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_fail_no_request() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1_000).await;
    let (_, other) = app.account(1_000).await;
    let mut ended = 0;
    for _ in 0..10 {
        let requests = (0..40).map(|n| {
            let key = if n % 2 == 0 { &key } else { &other };
            send(&app.router, create(key, fresh_key(), &destination()))
        });
        let (answers, count) = tokio::join!(join_all(requests), end_sessions(&app));
        ended += count;
        for answer in answers {
            assert_eq!(answer.status, 201, "{answer:?}");
        }
    }
    assert!(ended > 0, "no session was ended");
    assert_eq!(app.count("LinkCreated").await, 400);
    assert_eq!(app.balance(account_id).await, 800);
}

/// A server that was demoted to a standby answers writes with SQLSTATE 25006.
#[tokio::test(flavor = "multi_thread")]
async fn create_waits_for_read_only_server() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    assert_eq!(
        send(&app.router, create(&key, fresh_key(), &destination()))
            .await
            .status,
        201
    );
    let session_default = |value: &str| {
        format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {value}', \
             current_database()); END $$"
        )
    };
    let pool = app.database.pool();
    let mut owner = pool.acquire().await.unwrap();
    let set = sqlx::raw_sql(sqlx::AssertSqlSafe(session_default("on")));
    set.execute(&mut *owner).await.unwrap();
    end_sessions(&app).await;
    let request = send(&app.router, create(&key, fresh_key(), &destination()));
    let (answer, ()) = tokio::join!(request, async {
        // The session of this test began before the change, so it may still write.
        let reset = sqlx::raw_sql(sqlx::AssertSqlSafe(session_default("off")));
        reset.execute(&mut *owner).await.unwrap();
    });
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(app.balance(account_id).await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_command_fails_alone_in_group() {
    let app = TestApp::start().await;
    let (poisoned, poison_key) = app.account(10).await;
    let (_, key) = app.account(100).await;
    // The next version of the account's stream is taken, so the append violates a constraint.
    assert_eq!(
        send(
            &app.router,
            create(&poison_key, fresh_key(), &destination())
        )
        .await
        .status,
        201
    );
    sqlx::query("UPDATE event_store.accounts SET version = 0 WHERE account_id = $1")
        .bind(poisoned.uuid())
        .execute(app.database.pool())
        .await
        .unwrap();
    let requests = (0..40).map(|n| {
        let key = if n == 17 { &poison_key } else { &key };
        send(&app.router, create(key, fresh_key(), &destination()))
    });
    let answers = join_all(requests).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, if n == 17 { 500 } else { 201 }, "{n}");
    }
    assert_eq!(answers[17].problem(), "internal_error");
    assert_eq!(app.count("LinkCreated").await, 40);
    assert_eq!(app.balance(poisoned).await, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_on_damaged_page_fails_alone_in_group() {
    let app = TestApp::start().await;
    let (damaged, damaged_key) = app.account(10).await;
    let (_, key) = app.account(100).await;
    let statement = format!(
        "CREATE FUNCTION damaged() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = 'XX001'; END $$;
         CREATE TRIGGER damaged BEFORE INSERT ON event_store.events FOR EACH ROW
             WHEN (NEW.account_id = '{}') EXECUTE FUNCTION damaged()",
        damaged.uuid()
    );
    let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(statement));
    statement.execute(app.database.pool()).await.unwrap();
    let requests = (0..40).map(|n| {
        let key = if n == 17 { &damaged_key } else { &key };
        send(&app.router, create(key, fresh_key(), &destination()))
    });
    let answers = join_all(requests).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, if n == 17 { 503 } else { 201 }, "{n}");
    }
    assert_eq!(answers[17].problem(), "storage_unavailable");
    assert_eq!(app.balance(damaged).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_without_database_returns_503() {
    let (app, proxy) = behind_a_proxy().await;
    let (_, key) = app.account(10).await;
    // From here on the API key is cached.
    assert_eq!(
        send(&app.router, create(&key, fresh_key(), &destination()))
            .await
            .status,
        201
    );
    sqlx::query("ALTER TABLE event_store.accounts RENAME TO gone")
        .execute(app.database.pool())
        .await
        .unwrap();
    let answer = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (503, "storage_unavailable")
    );
    assert_eq!(answer.header("retry-after"), "1");
    sqlx::query("ALTER TABLE event_store.gone RENAME TO accounts")
        .execute(app.database.pool())
        .await
        .unwrap();
    assert_eq!(
        send(&app.router, create(&key, fresh_key(), &destination()))
            .await
            .status,
        201
    );
    assert_eq!(proxy.broken(), 0);
}
