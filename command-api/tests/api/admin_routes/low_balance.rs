//! Thresholds of accounts, and the charges that cross them.

use linkledger_core::api_key::ApiKey;
use serde_json::{Value, json};

use super::fixture::{ACCOUNTS, AdminApp, assert_replay, text};
use crate::{
    create_links::batch,
    support::{create, destination, fresh_key, send},
};

/// Creates an account with thresholds and credits, and returns its path and an API key.
async fn account(admin: &AdminApp, thresholds: &[i64], balance: i64) -> (String, ApiKey) {
    let path = admin.account().await;
    admin.grant(&path, balance).await;
    let key = admin.api_key(&path).await;
    let changed = json!({ "low_balance_at": thresholds });
    let changed = admin.done("PATCH", &path, &changed).await;
    assert_eq!(changed["low_balance_at"], json!(thresholds));
    (path, key)
}

/// Creates this number of links, one after the other.
async fn links(admin: &AdminApp, key: &ApiKey, count: usize) {
    for _ in 0..count {
        admin.app.link(key).await;
    }
}

/// Returns `low_balance` of each charge, the oldest first.
async fn crossed(admin: &AdminApp) -> Vec<Value> {
    let charges: Vec<String> = sqlx::query_scalar(
        "SELECT payload::text FROM event_store.events WHERE type = 'CreditsCharged'
         ORDER BY shard, position",
    )
    .fetch_all(admin.app.database.pool())
    .await
    .unwrap();
    let charges = charges.iter();
    let charges = charges.map(|it| serde_json::from_str::<Value>(it).unwrap());
    charges.map(|it| it["low_balance"].clone()).collect()
}

#[tokio::test]
async fn thresholds_are_set_kept_and_removed() {
    let admin = AdminApp::start().await;
    let body = json!({ "name": "Acme", "low_balance_at": [100, 10, 100] });
    let created = admin.post(ACCOUNTS, "order 1", &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.json()["low_balance_at"], json!([10, 100]));
    let payload = admin.app.payload("AccountCreated").await;
    assert_eq!(payload["low_balance_at"], json!([10, 100]));
    let path = format!("{ACCOUNTS}/{}", text(&created.json()["id"]));

    let renamed = admin.done("PATCH", &path, &json!({ "name": "Shop" })).await;
    assert_eq!(renamed["low_balance_at"], json!([10, 100]));
    let same = json!({ "low_balance_at": [10, 100] });
    let same = admin.call("PATCH", &path, &same).await;
    assert_eq!(same.header("consistency-token"), "");
    let removed = json!({ "low_balance_at": [] });
    let removed = admin.done("PATCH", &path, &removed).await;
    assert_eq!(removed["low_balance_at"], json!([]));
    let payload = admin.app.payload("AccountChanged").await;
    let expected = json!({ "low_balance_at": { "from": [10, 100], "to": [] } });
    assert_eq!(payload["changes"], expected);
    assert_replay(&created, &admin.post(ACCOUNTS, "order 1", &body).await);
}

#[tokio::test]
async fn upsert_without_thresholds_keeps_them() {
    let admin = AdminApp::start().await;
    let path = format!("{ACCOUNTS}/by-external-id/shop-1");
    for (body, status, thresholds) in [
        (
            json!({ "name": "One", "low_balance_at": [5] }),
            201,
            &[5][..],
        ),
        (json!({ "name": "Two" }), 200, &[5]),
        (
            json!({ "name": "Two", "low_balance_at": [7, 6] }),
            200,
            &[6, 7],
        ),
        (json!({ "name": "Two", "low_balance_at": [] }), 200, &[]),
    ] {
        let answer = admin.call("PUT", &path, &body).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert_eq!(answer.json()["low_balance_at"], json!(thresholds));
    }
}

#[tokio::test]
async fn charge_that_crosses_a_threshold_names_it_once() {
    let admin = AdminApp::start().await;
    let (path, key) = account(&admin, &[2, 4], 5).await;
    links(&admin, &key, 1).await;
    let crossing = fresh_key();
    let first = send(&admin.app.router, create(&key, crossing, &destination())).await;
    assert_eq!(first.status, 201, "{first:?}");
    let charged = admin.app.payload("CreditsCharged").await;
    assert_eq!(
        (&charged["low_balance"], &charged["balance_after"]),
        (&json!(4), &json!(3))
    );
    let again = send(&admin.app.router, create(&key, crossing, &destination())).await;
    assert_replay(&first, &again);
    links(&admin, &key, 2).await;
    assert_eq!(
        crossed(&admin).await,
        [Value::Null, json!(4), Value::Null, json!(2)]
    );

    // A grant raises the balance above the threshold, and the next crossing counts again.
    admin.grant(&path, 1).await;
    links(&admin, &key, 1).await;
    assert_eq!(crossed(&admin).await[4], json!(2));
    // Operators cross thresholds without a notice.
    admin.grant(&path, 9).await;
    let adjustment = json!({ "amount": -9, "reason": "mistake" });
    admin
        .done("POST", &format!("{path}/adjustments"), &adjustment)
        .await;
    let adjusted = admin.app.payload("CreditsAdjusted").await;
    assert_eq!(adjusted.get("low_balance"), None);
    links(&admin, &key, 1).await;
    assert_eq!(crossed(&admin).await[5], Value::Null);
}

#[tokio::test]
async fn changed_thresholds_count_for_the_next_charge() {
    let admin = AdminApp::start().await;
    let (path, key) = account(&admin, &[], 9).await;
    links(&admin, &key, 1).await;
    let thresholds = json!({ "low_balance_at": [8] });
    admin.done("PATCH", &path, &thresholds).await;
    links(&admin, &key, 1).await;
    let thresholds = json!({ "low_balance_at": [] });
    admin.done("PATCH", &path, &thresholds).await;
    links(&admin, &key, 1).await;
    assert_eq!(crossed(&admin).await, [Value::Null, json!(8), Value::Null]);
}

#[tokio::test]
async fn batch_crosses_each_threshold_once() {
    for mode in ["atomic", "partial"] {
        let admin = AdminApp::start().await;
        let (_, key) = account(&admin, &[1, 3], 4).await;
        let items: Vec<_> = (0..4).map(|_| (fresh_key(), destination())).collect();
        let trial = send(&admin.app.router, batch(&key, "dry_run", &items)).await;
        assert!(trial.status.is_success(), "{trial:?}");
        assert_eq!(crossed(&admin).await, Vec::<Value>::new());
        for _ in 0..2 {
            let answer = send(&admin.app.router, batch(&key, mode, &items)).await;
            assert!(answer.status.is_success(), "{answer:?}");
        }
        assert_eq!(
            crossed(&admin).await,
            [Value::Null, json!(3), Value::Null, json!(1)],
            "{mode}"
        );
    }
}
