//! Batches at the rate limit, without room in the queue, and with keys that are in use.

use futures::future::{join_all, select_all};
use linkledger_event_store::{accounts, transaction::PoolTransaction};
use linkledger_testing::eventually;
use serde_json::Value;

use super::{batch, statuses};
use crate::support::{TestApp, create, destination, fresh_key, link, send};

#[tokio::test]
async fn items_count_for_the_rate_limit() {
    let app = TestApp::start().await;
    let url = app.database.url().to_owned();
    let limited = TestApp::start_on(app.database.share(), &url, 50).await;
    let (_, key) = app.account(500).await;
    let some: Vec<_> = (0..60).map(|_| (fresh_key(), destination())).collect();
    // A burst has 100 items, and the limit refills with 50 per second.
    let batches = (0..20).map(|_| send(&limited.router, batch(&key, "partial", &some)));
    let (refused, accepted): (Vec<_>, Vec<_>) = join_all(batches)
        .await
        .into_iter()
        .partition(|answer| answer.status == 429);
    for answer in &accepted {
        assert_eq!(answer.status, 207, "{answer:?}");
        assert!(answer.header("ratelimit").starts_with("\"write\";r="));
    }
    assert!(!accepted.is_empty());
    assert_eq!(refused[0].problem(), "rate_limited");
    assert!(!refused[0].header("retry-after").is_empty());
}

#[tokio::test]
async fn batch_that_is_retried_at_once_passes_in_time() {
    let app = TestApp::start().await;
    let url = app.database.url().to_owned();
    // A burst of 2, which each of the batches needs, and one more write for each second.
    let limited = TestApp::start_on(app.database.share(), &url, 1).await;
    let (account_id, key) = app.account(100).await;
    let send_batch = || {
        let some = [(fresh_key(), destination()), (fresh_key(), destination())];
        send(&limited.router, batch(&key, "partial", &some))
    };
    assert_eq!(send_batch().await.status, 207);
    let waits = std::sync::Mutex::new(Vec::new());
    eventually("a batch passes", async || {
        let answer = send_batch().await;
        if answer.status == 207 {
            return Some(());
        }
        assert_eq!(answer.problem(), "rate_limited");
        waits
            .lock()
            .unwrap()
            .push(answer.header("retry-after").to_owned());
        None
    })
    .await;
    let waits = waits.into_inner().unwrap();
    assert!(waits.iter().all(|wait| wait == "1" || wait == "2"));
    assert_eq!(app.balance(account_id).await, 96);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_without_room_is_refused_as_a_whole() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(2_000).await;
    let mut holder = PoolTransaction::begin(app.database.pool()).await.unwrap();
    accounts::lock_in_tx(&mut holder, &[account_id])
        .await
        .unwrap();
    for mode in ["partial", "atomic"] {
        let request = || {
            let some: Vec<_> = (0..100).map(|_| (fresh_key(), destination())).collect();
            Box::pin(send(&app.router, batch(&key, mode, &some)))
        };
        // An account has room for 1,024 creates, which wait for the account here.
        let (refused, _, mut waiting) = select_all((0..11).map(|_| request())).await;
        assert_eq!(refused.status, 503, "{mode}: {refused:?}");
        assert_eq!(refused.problem(), "overloaded");
        assert_eq!(refused.header("retry-after"), "1");
        if mode == "atomic" {
            holder.rollback().await.unwrap();
            break;
        }
        // The others give up after 4 s: nothing has run.
        while !waiting.is_empty() {
            let (answer, _, rest) = select_all(waiting).await;
            assert_eq!(statuses(&answer), [503; 100]);
            assert_eq!(answer.json()["credits_balance"], Value::Null);
            waiting = rest;
        }
        assert_eq!(app.count("LinkCreated").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_running_batch_are_in_use() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    let mut holder = PoolTransaction::begin(app.database.pool()).await.unwrap();
    accounts::lock_in_tx(&mut holder, &[account_id])
        .await
        .unwrap();
    let used = fresh_key();
    let items = [(used, link("spring")), (fresh_key(), destination())];
    let requests =
        ["atomic", "atomic"].map(|mode| Box::pin(send(&app.router, batch(&key, mode, &items))));
    // The second request waits for 1 s for the key.
    let (refused, _, waiting) = select_all(requests).await;
    assert_eq!(refused.problem(), "idempotency_key_in_use");
    holder.rollback().await.unwrap();
    let (whole, _, _) = select_all(waiting).await;
    assert_eq!(whole.status, 201, "{whole:?}");
    let single = send(&app.router, create(&key, used, &link("spring"))).await;
    assert_eq!(single.header("idempotent-replayed"), "true", "{single:?}");
    let partial = send(&app.router, batch(&key, "partial", &items)).await;
    assert_eq!(partial.json()["items"][1]["replayed"], true, "{partial:?}");
    assert_eq!(app.balance(account_id).await, 8);
}
