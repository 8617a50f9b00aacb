//! Batches under lost answers of the database: each key has one effect, and an atomic batch is whole or
//! has no effect.

use std::collections::HashSet;

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    id::AccountId,
};
use linkledger_testing::{Random, TestDatabase};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::{batch, codes, statuses};
use crate::{
    proxy::{Fault, Proxy},
    support::{TestApp, create, destination, fresh_key, send},
};

/// Number of links of the random test, and of rounds in which they are sent.
const LINKS: usize = 40;
const ROUNDS: usize = 12;

async fn behind_a_proxy() -> (TestApp, Proxy) {
    let database = TestDatabase::create().await;
    let mut url = Url::parse(database.url()).unwrap();
    let proxy = Proxy::start(url.port().unwrap()).await;
    url.set_port(Some(proxy.port)).unwrap();
    let app = TestApp::start_on(database, url.as_str(), 0).await;
    (app, proxy)
}

/// Returns how many of the keys have had their effect.
async fn used(app: &TestApp, account_id: AccountId, items: &[(Uuid, Value)]) -> usize {
    let keys: Vec<String> = items
        .iter()
        .map(|(key, _)| format!("create:{key}"))
        .collect();
    let used: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM event_store.events
         WHERE account_id = $1 AND idempotency_key = ANY($2)",
    )
    .bind(account_id.uuid())
    .bind(keys)
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    usize::try_from(used).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn unresolvable_commit_marks_items_504() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(10).await;
    let items = [(fresh_key(), destination()), (fresh_key(), destination())];
    proxy.break_next(Fault::AfterCommitForLong);
    let answer = send(&app.router, batch(&key, "partial", &items)).await;
    assert_eq!(answer.status, 207, "{answer:?}");
    assert_eq!(codes(&answer), ["deadline_exceeded"; 2]);
    assert_eq!(
        answer.json()["items"][0]["problem"]["may_have_succeeded"],
        true
    );
    proxy.mend();
    let again = send(&app.router, batch(&key, "partial", &items)).await;
    assert_eq!(statuses(&again), [201, 201], "{again:?}");
    assert_eq!(again.json()["items"][1]["replayed"], true);
    assert_eq!(app.balance(account_id).await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn unresolvable_commit_of_atomic_batch_is_504() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(10).await;
    let items = [(fresh_key(), destination()), (fresh_key(), destination())];
    proxy.break_next(Fault::AfterCommitForLong);
    let answer = send(&app.router, batch(&key, "atomic", &items)).await;
    assert_eq!(answer.problem(), "deadline_exceeded");
    assert_eq!(answer.json()["may_have_succeeded"], true);
    proxy.mend();
    let again = send(&app.router, batch(&key, "atomic", &items)).await;
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(app.balance(account_id).await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_grouping_creates_each_link_once() {
    let (app, proxy) = behind_a_proxy().await;
    let (account_id, key) = app.account(1_000).await;
    let seed = SystemClock.now().unix_timestamp().cast_unsigned();
    let mut random = Random::new(seed);
    let body = |n: usize| match n % 3 {
        0 => json!({ "destination_url": "https://example.com/", "slug": format!("slug-{n}") }),
        _ => json!({ "destination_url": format!("https://example.com/{n}") }),
    };
    let mut items: Vec<_> = (0..LINKS).map(|n| (fresh_key(), body(n))).collect();
    let mut ids: HashSet<(Uuid, String)> = HashSet::new();
    for round in 0..=ROUNDS {
        random.shuffle(&mut items);
        let mut rest = &items[..];
        while !rest.is_empty() {
            // In the last round no answer is lost, and everything is sent.
            let is_last = round == ROUNDS;
            let (group, later) = rest.split_at((1 + random.below(12)).min(rest.len()));
            rest = later;
            if !is_last {
                if random.below(3) > 0 {
                    continue;
                }
                match random.below(3) {
                    0 => proxy.break_next(Fault::AfterCommit),
                    1 => proxy.break_next(Fault::BeforeCommit),
                    _ => {}
                }
            }
            let before = used(&app, account_id, group).await;
            match random.below(if is_last { 1 } else { 3 }) {
                0 => {
                    let answer = send(&app.router, batch(&key, "partial", group)).await;
                    assert_eq!(answer.status, 207, "{answer:?}");
                    for (item, (sent, _)) in
                        answer.json()["items"].as_array().unwrap().iter().zip(group)
                    {
                        assert!(!is_last || item["status"] == 201, "{item}");
                        if item["status"] == 201 {
                            let id = item["link"]["id"].as_str().unwrap();
                            ids.insert((*sent, id.to_owned()));
                        }
                    }
                }
                1 => {
                    let answer = send(&app.router, batch(&key, "atomic", group)).await;
                    let after = used(&app, account_id, group).await;
                    if answer.status == 201 {
                        assert_eq!(after, group.len());
                    } else {
                        assert_eq!(after, before, "{answer:?}");
                    }
                    let is_mixture = before > 0 && before < group.len();
                    assert!(!is_mixture || answer.status == 422, "{answer:?}");
                }
                _ => {
                    let (idempotency_key, body) = &group[0];
                    let answer = send(&app.router, create(&key, *idempotency_key, body)).await;
                    if answer.status == 201 {
                        let id = answer.json()["id"].as_str().unwrap().to_owned();
                        ids.insert((*idempotency_key, id));
                    }
                }
            }
        }
    }
    assert!(proxy.broken() > 0, "no answer was lost");
    let links = i64::try_from(LINKS).unwrap();
    assert_eq!(ids.len(), LINKS, "a key has two links, seed {seed}");
    assert_eq!(app.count("LinkCreated").await, links);
    assert_eq!(app.count("CreditsCharged").await, links);
    assert_eq!(app.balance(account_id).await, 1_000 - links);
}
