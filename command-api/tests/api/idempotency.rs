use linkledger_core::api_key::Scope;
use linkledger_testing as testing;
use serde_json::json;

use crate::support::{Answer, TestApp, create, destination, fresh_key, link, send};

/// Returns the answer without the headers that differ between two requests.
fn outcome(answer: &Answer) -> (u16, Vec<u8>, [String; 3]) {
    let headers = ["location", "etag", "consistency-token"];
    (
        answer.status.as_u16(),
        answer.body.clone(),
        headers.map(|it| answer.header(it).to_owned()),
    )
}

#[tokio::test]
async fn replay_returns_same_bytes_uncharged() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1).await;
    let idempotency_key = fresh_key();
    let first = send(&app.router, create(&key, idempotency_key, &link("Spring"))).await;
    assert_eq!(first.status, 201);

    // The balance is 0 and the slug is taken; the order of members and the spelling of the key differ.
    let body = r#"{ "slug": "Sp\u0072ing", "destination_url": "https://example.com/" }"#;
    let mut request = create(&key, idempotency_key, &json!(null));
    *request.body_mut() = body.into();
    let quoted = format!("\"{}\"", idempotency_key.to_string().to_uppercase());
    request
        .headers_mut()
        .insert("idempotency-key", quoted.parse().unwrap());
    let again = send(&app.router, request).await;

    assert_eq!(outcome(&again), outcome(&first));
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(app.balance(account_id).await, 0);
    assert_eq!(app.count("LinkCreated").await, 1);
}

#[tokio::test]
async fn replay_survives_api_key_rotation() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let idempotency_key = fresh_key();
    let first = send(&app.router, create(&key, idempotency_key, &destination())).await;
    let rotated = testing::api_key(app.database.pool(), account_id, &Scope::ALL).await;
    let again = send(
        &app.router,
        create(&rotated, idempotency_key, &destination()),
    )
    .await;
    assert_eq!(outcome(&again), outcome(&first));
}

#[tokio::test]
async fn other_body_under_used_key_is_rejected() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let idempotency_key = fresh_key();
    send(&app.router, create(&key, idempotency_key, &link("spring"))).await;
    let answer = send(&app.router, create(&key, idempotency_key, &link("summer"))).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (422, "idempotency_key_reused")
    );
    assert_eq!(app.balance(account_id).await, 4);
}

#[tokio::test]
async fn idempotency_keys_are_scoped_to_account() {
    let app = TestApp::start().await;
    let (_, one) = app.account(5).await;
    let (_, two) = app.account(5).await;
    let idempotency_key = fresh_key();
    let first = send(&app.router, create(&one, idempotency_key, &destination())).await;
    let second = send(&app.router, create(&two, idempotency_key, &destination())).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 201));
    assert_ne!(first.json()["id"], second.json()["id"]);
}

#[tokio::test]
async fn rejected_create_leaves_key_unused() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(0).await;
    let idempotency_key = fresh_key();
    let refused = send(&app.router, create(&key, idempotency_key, &destination())).await;
    assert_eq!(refused.status, 402);
    sqlx::query("UPDATE event_store.accounts SET balance = 1 WHERE account_id = $1")
        .bind(account_id.uuid())
        .execute(app.database.pool())
        .await
        .unwrap();
    let created = send(&app.router, create(&key, idempotency_key, &destination())).await;
    assert_eq!(created.status, 201);
    assert!(!created.headers.contains_key("idempotent-replayed"));
}

#[tokio::test]
async fn revoked_api_key_gets_no_replay() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let idempotency_key = fresh_key();
    send(&app.router, create(&key, idempotency_key, &destination())).await;
    let pool = app.database.pool();
    let revoked = testing::api_key(pool, account_id, &Scope::ALL).await;
    sqlx::query("UPDATE event_store.api_keys SET revoked_at = now() WHERE sha256 = $1")
        .bind(revoked.sha256().to_vec())
        .execute(pool)
        .await
        .unwrap();
    let answer = send(
        &app.router,
        create(&revoked, idempotency_key, &destination()),
    )
    .await;
    assert_eq!(answer.problem(), "api_key_revoked");
}
