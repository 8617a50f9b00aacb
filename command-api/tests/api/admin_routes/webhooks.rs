//! Webhooks of operators: the account that owns them, and the same life as those of owners.

use serde_json::{Value, json};

use super::fixture::{ACCOUNTS, AdminApp, assert_problem, assert_replay, text};
use crate::support::{Answer, send};

const WEBHOOKS: &str = "/admin/v1/webhooks";

fn creation() -> Value {
    json!({ "url": "https://ops.example.com/hooks", "types": ["webhook.disabled", "account.created"] })
}

#[tokio::test]
async fn first_webhook_creates_the_account_of_operators() {
    let admin = AdminApp::start().await;
    for _ in 0..2 {
        let created = admin.call("POST", WEBHOOKS, &creation()).await;
        assert_eq!(created.status, 201, "{created:?}");
        let path = format!("{WEBHOOKS}/{}", text(&created.json()["id"]));
        assert_eq!(created.header("location"), path);
        assert_eq!(
            created.json()["types"],
            json!(["account.created", "webhook.disabled"])
        );
    }
    let accounts = "SELECT string_agg(external_id || ' ' || name, ',') FROM event_store.accounts";
    assert_eq!(admin.stored(accounts).await, "operators Operators");
    let events = "SELECT string_agg(type, ' ' ORDER BY position) FROM event_store.events";
    assert_eq!(
        admin.stored(events).await,
        "AccountCreated WebhookCreated WebhookCreated"
    );
    let cursors = "SELECT count(*)::text FROM event_store.webhook_cursors";
    assert_eq!(admin.stored(cursors).await, "32");
    let payload = admin.app.payload("WebhookCreated").await;
    assert_eq!(payload["all_accounts"], true);
    let actor =
        "SELECT metadata->>'actor' FROM event_store.events WHERE type = 'WebhookCreated' LIMIT 1";
    assert_eq!(admin.stored(actor).await, admin.key_id.to_string());
}

#[tokio::test]
async fn operators_change_rotate_replay_and_delete() {
    let admin = AdminApp::start().await;
    let created = admin.post(WEBHOOKS, "webhook 1", &creation()).await;
    assert_eq!(created.status, 201, "{created:?}");
    let again = admin.post(WEBHOOKS, "webhook 1", &creation()).await;
    assert_replay(&created, &again);
    let path = created.header("location").to_owned();
    let rotate = format!("{path}/rotate-secret");
    let rotated = admin.post(&rotate, "rotation 1", &json!({})).await;
    let again = admin.post(&rotate, "rotation 1", &json!({})).await;
    assert_replay(&rotated, &again);
    assert_ne!(created.json()["secret"], rotated.json()["secret"]);
    let reused = admin
        .post(&rotate, "rotation 1", &json!({ "overlap_hours": "x" }))
        .await;
    assert_problem(&reused, 422, "idempotency_key_reused");

    let changed = admin
        .done("PATCH", &path, &json!({ "enabled": false }))
        .await;
    assert_eq!(changed["enabled"], false);
    let event = "SELECT event_id::text FROM event_store.events WHERE type = 'AccountCreated'";
    let event = uuid::Uuid::parse_str(&admin.stored(event).await).unwrap();
    let event = linkledger_core::id::EventId::from_uuid(event);
    let replay = format!("{path}/replay");
    let early = admin
        .call("POST", &replay, &json!({ "after": event }))
        .await;
    assert_problem(&early, 409, "webhook_disabled");
    admin
        .done("PATCH", &path, &json!({ "enabled": true }))
        .await;
    let started = admin
        .done("POST", &replay, &json!({ "after": event }))
        .await;
    assert_eq!(started["is_replaying"], true);
    let second = admin
        .call("POST", &replay, &json!({ "after": event }))
        .await;
    assert_problem(&second, 409, "replay_in_progress");
    let tested = admin
        .done("POST", &format!("{path}/test"), &json!({}))
        .await;
    let retry = format!("{path}/deliveries/{}/retry", text(&tested["id"]));
    assert_eq!(
        admin.done("POST", &retry, &json!({})).await["id"],
        tested["id"]
    );
    let deleted = admin.call("DELETE", &path, &json!({})).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    let gone = admin.call("PATCH", &path, &json!({})).await;
    assert_problem(&gone, 404, "webhook_not_found");
}

/// Returns the code of the only error.
fn code(answer: &Answer) -> String {
    text(&answer.json()["errors"][0]["code"]).to_owned()
}

#[tokio::test]
async fn external_id_of_operators_is_reserved() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.done("POST", WEBHOOKS, &creation()).await;
    let body = json!({ "name": "x", "external_id": "operators" });
    let created = admin.call("POST", ACCOUNTS, &body).await;
    assert_problem(&created, 422, "validation_failed");
    assert_eq!(code(&created), "external_id_reserved");
    let wanted = json!({ "external_id": "operators" });
    let changed = admin.call("PATCH", &account, &wanted).await;
    assert_problem(&changed, 422, "validation_failed");
    assert_eq!(code(&changed), "external_id_reserved");
    let path = format!("{ACCOUNTS}/by-external-id/operators");
    let put = admin.call("PUT", &path, &json!({ "name": "x" })).await;
    assert_problem(&put, 400, "invalid_parameter");
    assert_eq!(code(&put), "external_id_reserved");

    // The account itself keeps its external id, and can be renamed.
    let id = "SELECT account_id::text FROM event_store.accounts WHERE external_id = 'operators'";
    let id = uuid::Uuid::parse_str(&admin.stored(id).await).unwrap();
    let id = linkledger_core::id::AccountId::from_uuid(id);
    let path = format!("{ACCOUNTS}/{id}");
    let freed = admin
        .call("PATCH", &path, &json!({ "external_id": null }))
        .await;
    assert_problem(&freed, 422, "validation_failed");
    let renamed = admin.done("PATCH", &path, &json!({ "name": "Ops" })).await;
    assert_eq!(renamed["name"], "Ops");
    admin.done("POST", WEBHOOKS, &creation()).await;
    let name = "SELECT name FROM event_store.accounts WHERE external_id = 'operators'";
    assert_eq!(admin.stored(name).await, "Ops");
}

#[tokio::test]
async fn account_of_operators_does_not_see_their_webhooks() {
    let admin = AdminApp::start().await;
    let created = admin.done("POST", WEBHOOKS, &creation()).await;
    let id = "SELECT account_id::text FROM event_store.accounts";
    let id = uuid::Uuid::parse_str(&admin.stored(id).await).unwrap();
    let account = linkledger_core::id::AccountId::from_uuid(id);
    let key = json!({ "scopes": ["link:webhooks.write"] });
    let key = admin
        .done("POST", &format!("{ACCOUNTS}/{account}/keys"), &key)
        .await;
    let request = axum::http::Request::delete(format!("/v1/webhooks/{}", text(&created["id"])))
        .header("host", "api.sho.rt")
        .header("authorization", format!("Bearer {}", text(&key["secret"])));
    let request = request.body(axum::body::Body::empty()).unwrap();
    let answer = send(&admin.app.router, request).await;
    assert_problem(&answer, 404, "webhook_not_found");

    // Nor does its key replay a rotation of the operators, whose answer has their secret.
    let rotation = "01997f2c-5d1e-7c3a-9b1f-0123456789ab";
    let path = format!("webhooks/{}/rotate-secret", text(&created["id"]));
    let of_operators = format!("/admin/v1/{path}");
    let rotated = admin.post(&of_operators, rotation, &json!({})).await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
    let request = axum::http::Request::post(format!("/v1/{path}"))
        .header("host", "api.sho.rt")
        .header("content-type", "application/json")
        .header("idempotency-key", rotation)
        .header("authorization", format!("Bearer {}", text(&key["secret"])));
    let request = request.body(axum::body::Body::from("{}")).unwrap();
    let answer = send(&admin.app.router, request).await;
    assert_problem(&answer, 422, "idempotency_key_reused");
}
