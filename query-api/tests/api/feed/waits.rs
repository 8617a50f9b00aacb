//! Requests that wait for an event.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream::FuturesUnordered};
use linkledger_core::api_key::Scope;
use linkledger_testing as testing;
use linkledger_testing::eventually;
use serde_json::Value;

use super::{FEED, cursor, grant, items, page};
use crate::service::{Answer, TestCaller, TestService};

/// Much shorter than the longest wait, and much longer than an answer at once takes.
const SOON: Duration = Duration::from_secs(20);

/// Waits until the service asks the log for new events: only then a request waits.
async fn until_a_request_waits(service: &TestService) {
    eventually("somebody waits for an event", async || {
        let asks: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'linkledger'
               AND query LIKE '%shard, head FROM event_store.log_shards%'",
        )
        .fetch_one(service.pool())
        .await
        .unwrap();
        (asks > 0).then_some(())
    })
    .await;
}

/// Returns a caller and the cursor at the end of its feed.
async fn caller_at_the_end(service: &TestService) -> (TestCaller, String) {
    let caller = service.caller().await;
    service.append_link(&caller, "first").await;
    let end = cursor(&page(service, &caller, "").await);
    (caller, end)
}

async fn wait(service: &TestService, caller: &TestCaller, query: &str) -> Answer {
    let answer = service.get(caller, &format!("{FEED}?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    answer
}

#[tokio::test]
async fn event_ends_the_waits_of_its_account() {
    let service = TestService::start().await;
    let (caller, end) = caller_at_the_end(&service).await;
    let began = Instant::now();
    let query = format!("after={end}&wait=25");
    let waits = async {
        tokio::join!(
            wait(&service, &caller, &query),
            wait(&service, &caller, &query)
        )
    };
    let appending = async {
        until_a_request_waits(&service).await;
        grant(service.pool(), caller.account_id).await;
    };
    let ((first, second), ()) = tokio::join!(waits, appending);
    assert!(began.elapsed() < SOON);
    for answer in [first, second] {
        let page = answer.json();
        assert_eq!(items(&page).len(), 1, "{page}");
        assert_eq!(items(&page)[0]["type"], "CreditsGranted");
        assert_eq!(page["has_more"], false);
    }
}

#[tokio::test]
async fn event_that_is_there_needs_no_wait() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    service.append_link(&caller, "first").await;
    let began = Instant::now();
    let answer = wait(&service, &caller, "wait=25&limit=1").await;
    assert_eq!(items(&answer.json()).len(), 1);
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn wait_ends_empty_after_its_time() {
    let service = TestService::start().await;
    let (caller, end) = caller_at_the_end(&service).await;
    let other = service.caller().await;
    let began = Instant::now();
    let query = format!("after={end}&wait=2");
    let appending = async {
        until_a_request_waits(&service).await;
        grant(service.pool(), other.account_id).await;
    };
    let (answer, ()) = tokio::join!(wait(&service, &caller, &query), appending);
    assert!(began.elapsed() >= Duration::from_secs(2));
    let page = answer.json();
    assert_eq!(items(&page), [] as [Value; 0]);
    assert_eq!(page["has_more"], false);
    assert_eq!(cursor(&page), end);
}

#[tokio::test]
async fn wait_for_types_passes_others_by() {
    let service = TestService::start().await;
    let (caller, _) = caller_at_the_end(&service).await;
    let end = cursor(&page(&service, &caller, "from=now&types=LinkCreated").await);
    let query = format!("types=LinkCreated&after={end}&wait=25");
    let appending = async {
        until_a_request_waits(&service).await;
        grant(service.pool(), caller.account_id).await;
        service.append_link(&caller, "second").await;
    };
    let (answer, ()) = tokio::join!(wait(&service, &caller, &query), appending);
    assert_eq!(items(&answer.json())[0]["data"]["slug"], "second");
    let end = cursor(&answer.json());

    // Its cursor is behind the events that were passed by.
    grant(service.pool(), caller.account_id).await;
    let query = format!("types=LinkCreated&after={end}&wait=1");
    let answer = wait(&service, &caller, &query).await;
    assert_eq!(items(&answer.json()), [] as [Value; 0]);
    assert_ne!(cursor(&answer.json()), end);
}

#[tokio::test]
async fn shutdown_ends_waits() {
    let service = TestService::start().await;
    let (caller, end) = caller_at_the_end(&service).await;
    let began = Instant::now();
    let query = format!("after={end}&wait=25");
    let stopping = async {
        until_a_request_waits(&service).await;
        service.begin_shutdown();
    };
    let (answer, ()) = tokio::join!(wait(&service, &caller, &query), stopping);
    assert!(began.elapsed() < SOON);
    assert_eq!(items(&answer.json()), [] as [Value; 0]);
    assert_eq!(cursor(&answer.json()), end);
}

#[tokio::test]
async fn account_has_four_waits_at_a_time() {
    const WAITS: usize = 4;
    let service = TestService::start().await;
    let (caller, end) = caller_at_the_end(&service).await;
    let path = format!("{FEED}?after={end}&wait=25");
    let mut requests: FuturesUnordered<_> =
        (0..=WAITS).map(|_| service.get(&caller, &path)).collect();
    let refused = requests.next().await.unwrap();
    refused.assert_problem(503, "overloaded");
    assert!(refused.header("retry-after").is_some());
    // The other reads of the account, and the waits of others, have room.
    page(&service, &caller, "").await;
    let other = service.caller().await;
    page(&service, &other, "wait=1").await;
    grant(service.pool(), caller.account_id).await;
    while let Some(answer) = requests.next().await {
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(items(&answer.json()).len(), 1);
    }
}

#[tokio::test]
async fn ended_session_ends_no_wait() {
    let service = TestService::start().await;
    let account_id = testing::account(service.pool(), 1_000).await;
    let key = testing::api_key(service.pool(), account_id, &[Scope::EventsRead]).await;
    let caller = TestCaller { account_id, key };
    let appending = async {
        until_a_request_waits(&service).await;
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'linkledger'",
        )
        .execute(service.pool())
        .await
        .unwrap();
        grant(service.pool(), account_id).await;
    };
    let (answer, ()) = tokio::join!(wait(&service, &caller, "wait=25"), appending);
    assert_eq!(items(&answer.json()).len(), 1);
}
