//! Lost answers: the client learns that the outcome is unknown, and a retry has no second effect.

use linkledger_testing::TestDatabase;
use serde_json::json;
use url::Url;

use super::fixture::{ACCOUNTS, AdminApp, assert_problem, text};
use crate::{
    proxy::{Fault, Proxy},
    support::TestApp,
};

async fn behind_a_proxy() -> (AdminApp, Proxy) {
    let database = TestDatabase::create().await;
    let mut url = Url::parse(database.url()).unwrap();
    let proxy = Proxy::start(url.port().unwrap()).await;
    url.set_port(Some(proxy.port)).unwrap();
    let app = TestApp::start_on(database, url.as_str(), 0).await;
    (AdminApp::of(app).await, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_a_lost_commit_answer_is_a_replay() {
    let (admin, proxy) = behind_a_proxy().await;
    let account = admin.account().await;
    for (path, body) in [
        (
            ACCOUNTS.to_owned(),
            json!({ "name": "x", "external_id": "shop-1" }),
        ),
        (
            format!("{account}/grants"),
            json!({ "amount": 7, "reason": "x" }),
        ),
        (
            format!("{account}/keys"),
            json!({ "scopes": ["link:links.read"] }),
        ),
        (format!("{account}/suspend"), json!({ "reason": "x" })),
    ] {
        proxy.break_next(Fault::AfterCommit);
        let lost = admin.post(&path, "one", &body).await;
        assert_problem(&lost, 504, "deadline_exceeded");
        assert_eq!(lost.json()["may_have_succeeded"], true);
        let again = admin.post(&path, "one", &body).await;
        assert!(again.status.is_success(), "{again:?}");
        assert_eq!(again.header("idempotent-replayed"), "true", "{path}");
    }
    assert_eq!(admin.app.count("AccountCreated").await, 2);
    assert_eq!(admin.app.count("CreditsGranted").await, 1);
    assert_eq!(admin.app.count("ApiKeyIssued").await, 1);
    assert_eq!(admin.app.count("AccountSuspended").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_lost_before_the_server_has_no_effect() {
    let (admin, proxy) = behind_a_proxy().await;
    let account = admin.account().await;
    let grants = format!("{account}/grants");
    let body = json!({ "amount": 7, "reason": "x" });
    proxy.break_next(Fault::BeforeCommit);
    let lost = admin.post(&grants, "one", &body).await;
    assert_problem(&lost, 504, "deadline_exceeded");
    let again = admin.post(&grants, "one", &body).await;
    assert_eq!(again.header("idempotent-replayed"), "");
    assert_eq!(again.json()["balance_after"], 7, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_upsert_is_repeated_without_effect() {
    let (admin, proxy) = behind_a_proxy().await;
    let path = format!("{ACCOUNTS}/by-external-id/shop-1");
    let body = json!({ "name": "Acme" });
    proxy.break_next(Fault::AfterCommit);
    let lost = admin.call("PUT", &path, &body).await;
    assert_problem(&lost, 504, "deadline_exceeded");
    let again = admin.call("PUT", &path, &body).await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(text(&again.json()["external_id"]), "shop-1");
    assert_eq!(admin.app.count("AccountCreated").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_database_is_503_before_any_effect() {
    let (admin, proxy) = behind_a_proxy().await;
    let body = json!({ "name": "x" });
    proxy.break_next(Fault::SilenceFrom("event_store.admin_keys"));
    let answer = admin.call("POST", ACCOUNTS, &body).await;
    assert_problem(&answer, 503, "storage_unavailable");
    assert_eq!(admin.call("POST", ACCOUNTS, &body).await.status, 201);
    assert_eq!(admin.app.count("AccountCreated").await, 1);
}
