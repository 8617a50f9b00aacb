use linkledger_core::consistency::ConsistencyToken;
use serde_json::json;

use crate::support::{Answer, TestApp, change, create, delete, fresh_key, link, send, with};

#[tokio::test]
async fn deleted_link_stays_deleted() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(2).await;
    let idempotency_key = fresh_key();
    let created = send(&app.router, create(&key, idempotency_key, &link("Spring"))).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();

    let deleted = send(&app.router, delete(&key, &id)).await;
    assert_eq!((deleted.status.as_u16(), deleted.body.len()), (204, 0));
    // Existence is checked before `If-Match`.
    let again = send(&app.router, with(delete(&key, &id), "if-match", "\"1\"")).await;
    assert_eq!(again.status, 204);
    let token = |name: &str| ConsistencyToken::decode(name, account_id).unwrap();
    assert_eq!(
        token(again.header("consistency-token")),
        token(deleted.header("consistency-token"))
    );
    assert_eq!(app.count("LinkDeleted").await, 1);

    let patched = send(&app.router, change(&key, &id, &json!({}))).await;
    assert_eq!(patched.problem(), "link_not_found");
    let second = send(&app.router, create(&key, fresh_key(), &link("spring"))).await;
    assert_eq!(
        second.problem(),
        "slug_taken",
        "it is never given out again"
    );
    // The answer does not depend on whose link had the slug.
    let (_, other) = app.account(1).await;
    let foreign = send(&app.router, create(&other, fresh_key(), &link("spring"))).await;
    let detail = |answer: &Answer| answer.json()["detail"].clone();
    assert_eq!(detail(&foreign), detail(&second));
    // A replay of the create gets the first answer, and the price is not refunded.
    let replayed = send(&app.router, create(&key, idempotency_key, &link("Spring"))).await;
    assert_eq!(replayed.body, created.body);
    assert_eq!(replayed.header("etag"), "\"1\"");
    assert_eq!(replayed.header("idempotent-replayed"), "true");
    assert_eq!(app.balance(account_id).await, 1);
}

#[tokio::test]
async fn delete_honours_if_match() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    let stale = send(&app.router, with(delete(&key, &id), "if-match", "\"7\"")).await;
    assert_eq!(stale.problem(), "etag_mismatch");
    let deleted = send(&app.router, with(delete(&key, &id), "if-match", "\"1\"")).await;
    assert_eq!(deleted.status, 204);
}
