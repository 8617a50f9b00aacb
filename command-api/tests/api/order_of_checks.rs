//! Requests with two faults: the one that contract §9 names first is told.

use axum::{
    body::Body,
    http::{HeaderValue, Request},
};
use linkledger_core::{api_key::Scope, testing};
use serde_json::json;

use crate::support::{TestApp, create, fresh_key, link, send};

type Fault = (&'static str, &'static str, fn(&mut Request<Body>));

fn set(request: &mut Request<Body>, name: &'static str, value: &'static str) {
    request
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
}

/// In the order of the contract. Each fault leaves the later checks as they are.
const FAULTS: [Fault; 11] = [
    ("host", "invalid_header", |request| {
        request.headers_mut().remove("host");
    }),
    ("path", "route_not_found", |request| {
        *request.uri_mut() = format!("/v2/links{}", query(request)).parse().unwrap();
    }),
    ("method", "method_not_allowed", |request| {
        *request.method_mut() = axum::http::Method::PUT;
    }),
    ("key", "authentication_required", |request| {
        request.headers_mut().remove("authorization");
    }),
    ("query", "invalid_parameter", |request| {
        *request.uri_mut() = format!("{}?x=1", request.uri().path()).parse().unwrap();
    }),
    ("accept", "not_acceptable", |request| {
        set(request, "accept", "text/html");
    }),
    ("type", "unsupported_media_type", |request| {
        set(request, "content-type", "text/plain");
    }),
    ("encoding", "unsupported_content_encoding", |request| {
        set(request, "content-encoding", "gzip");
    }),
    ("size", "content_too_large", |request| {
        set(request, "content-length", "16385");
    }),
    ("idempotency key", "idempotency_key_missing", |request| {
        request.headers_mut().remove("idempotency-key");
    }),
    ("json", "malformed_json", |request| {
        *request.body_mut() = Body::from("{");
    }),
];

fn query(request: &Request<Body>) -> String {
    request
        .uri()
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default()
}

#[tokio::test]
async fn of_two_faults_the_earlier_is_told() {
    let app = TestApp::start().await;
    let (_, key) = app.account(0).await;
    for (first, (name, code, fault)) in FAULTS.iter().enumerate() {
        for (other_name, _, other) in &FAULTS[first..] {
            let mut request = create(&key, fresh_key(), &json!({ "slug": "a b" }));
            other(&mut request);
            fault(&mut request);
            let answer = send(&app.router, request).await;
            assert_eq!(answer.problem(), *code, "{name} and {other_name}");
        }
    }
}

#[tokio::test]
async fn what_needs_the_database_comes_last_and_in_order() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1).await;
    let used = fresh_key();
    assert_eq!(
        send(&app.router, create(&key, used, &link("taken")))
            .await
            .status,
        201
    );
    // The balance is 0 from here on.
    let invalid = json!({ "slug": "taken" });
    for (idempotency_key, body, code) in [
        (used, &invalid, "idempotency_key_reused"),
        (fresh_key(), &invalid, "validation_failed"),
        (fresh_key(), &link("taken"), "slug_taken"),
        (fresh_key(), &link("other"), "insufficient_credits"),
    ] {
        let answer = send(&app.router, create(&key, idempotency_key, body)).await;
        assert_eq!(answer.problem(), code);
    }
    // Scope before account, account before query.
    let pool = app.database.pool();
    let reader = testing::api_key(pool, account_id, &[Scope::LinksRead]).await;
    let writer = testing::api_key(pool, account_id, &[Scope::LinksWrite]).await;
    sqlx::query("UPDATE event_store.accounts SET status = 'suspended'")
        .execute(pool)
        .await
        .unwrap();
    for (key, code) in [
        (&reader, "insufficient_scope"),
        (&writer, "account_suspended"),
    ] {
        let mut request = create(key, fresh_key(), &link("other"));
        *request.uri_mut() = "/v1/links?x=1".parse().unwrap();
        assert_eq!(send(&app.router, request).await.problem(), code);
    }
}

#[tokio::test]
async fn a_body_that_grows_too_large_without_saying_so_is_refused() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let mut request = create(&key, fresh_key(), &link("spring"));
    *request.body_mut() = Body::from(format!("{{\"slug\":\"{}\"}}", "a".repeat(16 * 1024)));
    let answer = send(&app.router, request).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (413, "content_too_large")
    );
}

#[tokio::test]
async fn credentials_are_read_strictly() {
    let app = TestApp::start().await;
    let (_, key) = app.account(10).await;
    let valid = key.reveal().to_owned();
    for (authorization, code) in [
        (String::new(), "authentication_required"),
        ("Basic dXNlcjpwYXNz".to_owned(), "authentication_required"),
        (valid.clone(), "authentication_required"),
        ("Bearer".to_owned(), "api_key_invalid"),
        ("Bearer llk_x".to_owned(), "api_key_invalid"),
        (format!("Bearer {valid}, Bearer {valid}"), "api_key_invalid"),
        (format!("Bearer x{}", &valid[1..]), "api_key_invalid"),
    ] {
        let mut request = create(&key, fresh_key(), &link("spring"));
        let value = HeaderValue::from_str(&authorization).unwrap();
        request.headers_mut().insert("authorization", value);
        let answer = send(&app.router, request).await;
        assert_eq!(answer.problem(), code, "{authorization}");
    }
    let mut request = create(&key, fresh_key(), &link("spring"));
    let value = HeaderValue::from_str(&format!("bEARER {valid}")).unwrap();
    request.headers_mut().insert("authorization", value);
    assert_eq!(send(&app.router, request).await.status, 201);
}
