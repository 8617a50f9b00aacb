//! API keys: issue, change, rotation, revocation.

use linkledger_core::api_key::ApiKey;
use serde_json::{Value, json};

use super::fixture::{AdminApp, assert_problem, assert_replay, text};
use crate::support::{Answer, create, destination, fresh_key, send};

const KEYS: &str = "/admin/v1/keys";

fn path_of(key: &Value) -> String {
    format!("{KEYS}/{}", text(&key["id"]))
}

async fn create_with(admin: &AdminApp, secret: &str) -> Answer {
    let key = ApiKey::parse(secret).unwrap();
    send(&admin.app.router, create(&key, fresh_key(), &destination())).await
}

fn hex(bytes: &[u8]) -> String {
    let add = |text: String, byte: &u8| format!("{text}{byte:02x}");
    bytes.iter().fold(String::new(), add)
}

/// Checks that the answers are equal, except that only the first one has the secret.
fn assert_replay_without_secret(first: &Answer, again: &Answer) {
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(first.header("location"), again.header("location"));
    assert_eq!((first.status, again.status.as_u16()), (again.status, 201));
    let mut expected = first.json();
    expected.as_object_mut().unwrap().remove("secret").unwrap();
    assert_eq!(again.json(), expected);
}

#[tokio::test]
async fn issued_key_shows_its_secret_once() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 5).await;
    let body = json!({
        "scopes": ["link:links.write"], "name": "web shop", "expires_at": "2099-12-31T23:59:59Z",
    });
    let keys = format!("{account}/keys");
    let issued = admin.post(&keys, "key 1", &body).await;
    assert_eq!(issued.status, 201, "{issued:?}");
    let key = issued.json();
    assert_eq!(issued.header("location"), path_of(&key));
    assert_eq!(key["name"], "web shop");
    assert_eq!(key["scopes"], json!(["link:links.write"]));
    assert_eq!(key["expires_at"], "2099-12-31T23:59:59.000Z");
    let secret = text(&key["secret"]);
    assert!(secret.starts_with(text(&key["prefix"])));
    assert_eq!(create_with(&admin, secret).await.status, 201);

    let again = admin.post(&keys, "key 1", &body).await;
    assert_replay_without_secret(&issued, &again);
    let other = admin
        .post(&keys, "key 1", &json!({ "scopes": ["link:links.read"] }))
        .await;
    assert_problem(&other, 422, "idempotency_key_reused");
    assert_eq!(admin.app.count("ApiKeyIssued").await, 1);
    let logged = "SELECT string_agg(payload::text || metadata::text, '') FROM event_store.events";
    assert!(!admin.stored(logged).await.contains(secret));
}

#[tokio::test]
async fn secret_of_the_caller_is_stored_as_a_hash() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 5).await;
    let secret = ApiKey::generate();
    let body = json!({
        "scopes": ["link:links.write"], "secret_sha256": hex(&secret.sha256()),
    });
    let keys = format!("{account}/keys");
    let issued = admin.post(&keys, "key 1", &body).await;
    assert_eq!(issued.status, 201, "{issued:?}");
    assert!(issued.json().get("secret").is_none());
    assert_eq!(create_with(&admin, secret.reveal()).await.status, 201);
    let again = admin.post(&keys, "key 1", &body).await;
    assert_replay(&issued, &again);

    let taken = admin.post(&keys, "key 2", &body).await;
    assert_problem(&taken, 422, "validation_failed");
    let error = taken.json()["errors"][0].clone();
    assert_eq!(
        (&error["pointer"], &error["code"]),
        (&json!("#/secret_sha256"), &json!("secret_taken"))
    );
}

#[tokio::test]
async fn key_changes_and_keeps_its_secret() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let key = json!({ "scopes": ["link:links.read"], "expires_at": "2099-01-01T00:00:00Z" });
    let key = admin.done("POST", &format!("{account}/keys"), &key).await;
    let path = path_of(&key);
    let wanted = json!({
        "name": "renamed", "scopes": ["link:credits.read", "link:links.read"], "expires_at": null,
    });
    let changed = admin.call("PATCH", &path, &wanted).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_ne!(changed.header("consistency-token"), "");
    let body = changed.json();
    assert_eq!(body["name"], "renamed");
    assert_eq!(
        body["scopes"],
        json!(["link:links.read", "link:credits.read"])
    );
    assert!(body.get("expires_at").is_none() && body.get("secret").is_none());
    let unchanged = admin.call("PATCH", &path, &wanted).await;
    assert_eq!(unchanged.body, changed.body);
    assert_eq!(unchanged.header("consistency-token"), "");

    let past = admin
        .call(
            "PATCH",
            &path,
            &json!({ "expires_at": "2020-01-01T00:00:00Z" }),
        )
        .await;
    assert_problem(&past, 422, "validation_failed");
    assert_eq!(past.json()["errors"][0]["code"], "expires_at_in_the_past");
}

#[tokio::test]
async fn rotated_key_is_replaced_once() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 5).await;
    let old = json!({ "scopes": ["link:links.write"], "name": "shop" });
    let old = admin.done("POST", &format!("{account}/keys"), &old).await;
    let rotate = format!("{}/rotate", path_of(&old));
    let body = json!({ "overlap_seconds": 3600 });
    let rotated = admin.post(&rotate, "rotation 1", &body).await;
    assert_eq!(rotated.status, 201, "{rotated:?}");
    let new = rotated.json();
    assert_eq!(rotated.header("location"), path_of(&new));
    assert_eq!(
        (&new["name"], &new["scopes"]),
        (&old["name"], &old["scopes"])
    );
    assert_eq!(new["replaces"], old["id"]);
    assert!(new["overlap_until"].is_string());
    for key in [&old, &new] {
        let created = create_with(&admin, text(&key["secret"])).await;
        assert_eq!(created.status, 201, "{created:?}");
    }

    let again = admin.post(&rotate, "rotation 1", &body).await;
    assert_replay_without_secret(&rotated, &again);
    let second = admin.post(&rotate, "rotation 2", &body).await;
    assert_problem(&second, 409, "key_not_valid");
    assert_eq!(admin.app.count("ApiKeyRotated").await, 1);
    assert_eq!(admin.app.count("ApiKeyIssued").await, 2);
}

#[tokio::test]
async fn revoked_key_is_refused_and_stays_so() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let key = json!({ "scopes": ["link:links.write"] });
    let key = admin.done("POST", &format!("{account}/keys"), &key).await;
    let path = path_of(&key);
    let revoked = admin.call("DELETE", &path, &json!({})).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    assert!(revoked.json()["revoked_at"].is_string());
    let refused = create_with(&admin, text(&key["secret"])).await;
    assert_problem(&refused, 401, "api_key_revoked");
    let again = admin.call("DELETE", &path, &json!({})).await;
    assert_eq!((again.status, &again.body), (revoked.status, &revoked.body));
    assert_eq!(admin.app.count("ApiKeyRevoked").await, 1);

    let changed = admin.call("PATCH", &path, &json!({ "name": "x" })).await;
    assert_problem(&changed, 409, "key_not_valid");
    let rotate = format!("{path}/rotate");
    let rotated = admin
        .call("POST", &rotate, &json!({ "overlap_seconds": 0 }))
        .await;
    assert_problem(&rotated, 409, "key_not_valid");
}

#[tokio::test]
async fn unknown_keys_are_not_found() {
    let admin = AdminApp::start().await;
    for id in ["key_01h455vb4pex5vsknk084sn02q", "key_1", "llk_x"] {
        let path = format!("{KEYS}/{id}");
        let rotate = format!("{path}/rotate");
        for answer in [
            admin.call("PATCH", &path, &json!({})).await,
            admin.call("DELETE", &path, &json!({})).await,
            admin
                .call("POST", &rotate, &json!({ "overlap_seconds": 0 }))
                .await,
        ] {
            assert_problem(&answer, 404, "key_not_found");
        }
    }
    let keys = "/admin/v1/accounts/acc_01h455vb4pex5vsknk084sn02q/keys";
    let answer = admin
        .call("POST", keys, &json!({ "scopes": ["link:links.read"] }))
        .await;
    assert_problem(&answer, 404, "account_not_found");
}
