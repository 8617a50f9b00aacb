//! Accounts: creation, upserts, changes, suspension.

use futures::future::join_all;
use serde_json::json;

use super::fixture::{ACCOUNTS, AdminApp, assert_problem, assert_replay, text};
use crate::support::{create, destination, fresh_key, send};

#[tokio::test]
async fn account_is_created_once_per_key() {
    let admin = AdminApp::start().await;
    let body = json!({ "name": "Example Ltd", "external_id": "customers/4711" });
    let created = admin.post(ACCOUNTS, "order 1", &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    let account = created.json();
    let id = text(&account["id"]);
    assert!(id.starts_with("acc_"));
    assert_eq!(created.header("location"), format!("{ACCOUNTS}/{id}"));
    assert_eq!(created.header("cache-control"), "no-store");
    assert_ne!(created.header("consistency-token"), "");
    let created_at = account["created_at"].clone();
    let expected = json!({
        "id": id, "name": "Example Ltd", "external_id": "customers/4711", "state": "active",
        "balance": 0, "low_balance_at": [], "created_at": created_at,
    });
    assert_eq!(account, expected);

    // The answer stays, whatever becomes of the account.
    let path = format!("{ACCOUNTS}/{id}");
    admin
        .done("PATCH", &path, &json!({ "name": "Other" }))
        .await;
    admin.grant(&path, 5).await;
    let again = admin.post(ACCOUNTS, "order 1", &body).await;
    assert_replay(&created, &again);
    let other = admin
        .post(ACCOUNTS, "order 1", &json!({ "name": "Other" }))
        .await;
    assert_problem(&other, 422, "idempotency_key_reused");
    assert_eq!(admin.app.count("AccountCreated").await, 1);
}

#[tokio::test]
async fn event_names_the_admin_key_and_the_request() {
    let admin = AdminApp::start().await;
    let created = admin
        .call("POST", ACCOUNTS, &json!({ "name": "Acme" }))
        .await;
    let metadata = "SELECT metadata::text FROM event_store.events WHERE type = 'AccountCreated'";
    let metadata: serde_json::Value = serde_json::from_str(&admin.stored(metadata).await).unwrap();
    assert_eq!(metadata["actor"], admin.key_id.to_string());
    assert_eq!(metadata["request_id"], created.header("x-request-id"));
    assert!(text(&metadata["traceparent"]).starts_with("00-"));
    assert!(metadata.get("operator").is_none());
}

#[tokio::test]
async fn upsert_creates_then_renames_then_changes_nothing() {
    let admin = AdminApp::start().await;
    let path = format!("{ACCOUNTS}/by-external-id/customers%2F7");
    let created = admin.call("PUT", &path, &json!({ "name": "One" })).await;
    assert_eq!(created.status, 201, "{created:?}");
    let account = created.json();
    assert_eq!(account["external_id"], "customers/7");
    let location = format!("{ACCOUNTS}/{}", text(&account["id"]));
    assert_eq!(created.header("location"), location);

    let renamed = admin.call("PUT", &path, &json!({ "name": "Two" })).await;
    assert_eq!(renamed.status, 200, "{renamed:?}");
    assert_eq!(renamed.json()["id"], account["id"]);
    assert_eq!(renamed.json()["name"], "Two");
    assert_ne!(renamed.header("consistency-token"), "");
    let unchanged = admin.call("PUT", &path, &json!({ "name": "Two" })).await;
    assert_eq!(
        (unchanged.status, &unchanged.body),
        (renamed.status, &renamed.body)
    );
    assert_eq!(unchanged.header("consistency-token"), "");
    assert_eq!(admin.app.count("AccountChanged").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_upserts_create_one_account() {
    let admin = AdminApp::start().await;
    let path = format!("{ACCOUNTS}/by-external-id/shop-1");
    let body = json!({ "name": "Acme" });
    let answers = join_all((0..16).map(|_| admin.call("PUT", &path, &body))).await;
    let created = answers.iter().filter(|answer| answer.status == 201);
    assert_eq!(created.count(), 1, "{answers:?}");
    let id = answers[0].json()["id"].clone();
    for answer in &answers {
        assert!(answer.status.is_success(), "{answer:?}");
        assert_eq!(answer.json()["id"], id);
    }
    assert_eq!(admin.app.count("AccountCreated").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creates_with_one_key_make_one_account() {
    let admin = AdminApp::start().await;
    let body = json!({ "name": "Acme", "external_id": "shop-1" });
    let answers = join_all((0..8).map(|_| admin.post(ACCOUNTS, "order 1", &body))).await;
    for answer in &answers {
        assert_eq!(
            (answer.status.as_u16(), &answer.body),
            (201, &answers[0].body)
        );
    }
    assert_eq!(admin.app.count("AccountCreated").await, 1);
}

#[tokio::test]
async fn patch_changes_and_removes_members() {
    let admin = AdminApp::start().await;
    let other = json!({ "name": "Other", "external_id": "taken" });
    let other = admin.done("POST", ACCOUNTS, &other).await;
    let path = admin.account().await;

    let body = json!({ "name": "New name", "external_id": "a:b@c" });
    let changed = admin.done("PATCH", &path, &body).await;
    assert_eq!(changed["name"], "New name");
    assert_eq!(changed["external_id"], "a:b@c");
    let removed = admin
        .done("PATCH", &path, &json!({ "external_id": null }))
        .await;
    assert_eq!(removed["name"], "New name");
    assert!(removed.get("external_id").is_none());
    let unchanged = admin.call("PATCH", &path, &json!({})).await;
    assert_eq!(unchanged.json(), removed);
    assert_eq!(unchanged.header("consistency-token"), "");

    let taken = admin
        .call("PATCH", &path, &json!({ "external_id": "taken" }))
        .await;
    assert_problem(&taken, 409, "external_id_taken");
    assert!(text(&taken.json()["detail"]).contains(text(&other["id"])));
    let body = json!({ "name": "x", "external_id": "taken" });
    let taken = admin.call("POST", ACCOUNTS, &body).await;
    assert_problem(&taken, 409, "external_id_taken");
}

#[tokio::test]
async fn suspended_account_is_refused_until_resumed() {
    let admin = AdminApp::start().await;
    let path = admin.account().await;
    admin.grant(&path, 5).await;
    let suspend = format!("{path}/suspend");
    let body = json!({ "reason": "payment overdue", "stop_redirects": true });
    let suspended = admin.post(&suspend, "case 7", &body).await;
    assert_eq!(suspended.status, 200, "{suspended:?}");
    assert_eq!(suspended.json()["state"], "suspended");
    assert_eq!(suspended.json()["redirects_stopped"], true);
    assert_eq!(suspended.json()["balance"], 5);

    let key = admin.api_key(&path).await;
    let refused = send(&admin.app.router, create(&key, fresh_key(), &destination())).await;
    assert_problem(&refused, 403, "account_suspended");

    let reason = json!({ "reason": "payment received" });
    let resumed = admin
        .post(&format!("{path}/resume"), "case 7", &reason)
        .await;
    assert_eq!(resumed.json()["state"], "active");
    assert!(resumed.json().get("redirects_stopped").is_none());
    let again = admin
        .post(&format!("{path}/resume"), "case 7", &reason)
        .await;
    assert_replay(&resumed, &again);
    // A late retry of the suspension has no second effect.
    let again = admin.post(&suspend, "case 7", &body).await;
    assert_replay(&suspended, &again);
    let key = admin.api_key(&path).await;
    let created = send(&admin.app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(created.status, 201, "{created:?}");
}

#[tokio::test]
async fn unknown_accounts_are_not_found() {
    let admin = AdminApp::start().await;
    let reason = json!({ "reason": "x" });
    for id in ["acc_01h455vb4pex5vsknk084sn02q", "acc_1", "ACC_x", "x%2Fy"] {
        let path = format!("{ACCOUNTS}/{id}");
        for answer in [
            admin.call("PATCH", &path, &json!({ "name": "x" })).await,
            admin
                .call("POST", &format!("{path}/suspend"), &reason)
                .await,
            admin.call("POST", &format!("{path}/resume"), &reason).await,
        ] {
            assert_problem(&answer, 404, "account_not_found");
        }
    }
}
