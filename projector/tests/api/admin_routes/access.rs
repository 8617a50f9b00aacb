//! Access to the admin API of the projector by host, path, method, key and scope.

use axum::{
    body::Body,
    http::{HeaderValue, Method},
};
use linkledger_core::api_key::{AdminKey, AdminScope, ApiKey, Scope};
use linkledger_event_store::admin_keys;
use linkledger_service::databases::DatabaseSettings;
use linkledger_testing as testing;

use super::{AdminApi, STATUS, admin_key, get, path, post, request};

#[tokio::test]
async fn admin_key_with_scope_is_required() {
    let api = AdminApi::start().await;
    let account_id = testing::account(api.pool(), 0).await;
    let api_key = testing::api_key(api.pool(), account_id, &Scope::ALL).await;
    for (method, path, scope) in [
        (Method::GET, STATUS.to_owned(), AdminScope::Read),
        (Method::POST, path("links", "pause"), AdminScope::Operations),
        (
            Method::POST,
            path("links", "resume"),
            AdminScope::Operations,
        ),
    ] {
        let with_token = async |token: &str| {
            let request = request(method.clone(), &path, token, Body::empty());
            api.send(request).await
        };
        for token in [
            "x",
            "lla_",
            AdminKey::generate().reveal(),
            ApiKey::generate().reveal(),
            api_key.reveal(),
        ] {
            with_token(token)
                .await
                .assert_problem(401, "api_key_invalid");
        }
        let mut without = request(method.clone(), &path, "x", Body::empty());
        without.headers_mut().remove("authorization");
        let answer = api.send(without).await;
        answer.assert_problem(401, "authentication_required");

        let others = AdminScope::ALL.into_iter().filter(|other| *other != scope);
        let (_, others) = admin_key(api.pool(), &others.collect::<Vec<_>>()).await;
        let answer = with_token(others.reveal()).await;
        answer.assert_problem(403, "insufficient_scope");
        assert_eq!(answer.json()["required_scopes"][0], scope.name());
        let (_, own) = admin_key(api.pool(), &[scope]).await;
        let answer = with_token(own.reveal()).await;
        assert!(
            ![401, 403].contains(&answer.status.as_u16()),
            "{path}: {answer:?}"
        );
    }
    assert_eq!(api.recorded().await.len(), 0);
}

#[tokio::test]
async fn revoked_admin_key_is_refused_at_once() {
    let api = AdminApi::start().await;
    assert_eq!(api.change("links", "resume").await.status, 200);
    admin_keys::revoke(api.pool(), api.key_id, "ann")
        .await
        .unwrap();
    let answer = api.change("links", "pause").await;
    answer.assert_problem(401, "api_key_revoked");
}

#[tokio::test]
async fn unknown_host_is_refused() {
    let api = AdminApi::start_with(|config| {
        config.admin_allowed_hosts.names = vec!["ops.example".to_owned()];
    })
    .await;
    for (host, status) in [
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8088", 421),
        ("api.example.com", 421),
        ("localhost:8088", 200),
        ("projector", 200),
        ("[::1]:8088", 200),
        ("ops.example", 200),
    ] {
        let path = path("links", "resume");
        let mut resume = post(&path, &api.key, r#"{"reason":"x"}"#.to_owned());
        let value = HeaderValue::from_static(host);
        resume.headers_mut().insert("host", value);
        let answer = api.send(resume).await;
        assert_eq!(answer.status.as_u16(), status, "{host}: {answer:?}");
        if status == 421 {
            answer.assert_problem(421, "host_not_served");
        }
    }
}

#[tokio::test]
async fn listener_has_only_its_paths_and_methods() {
    let api = AdminApi::start().await;
    for path in [
        "/",
        "/operators/",
        "/metrics",
        "/livez",
        "/v1/links",
        "/admin/v1",
        "/admin/v1/status/",
        "/admin/v1/accounts",
        "/admin/v1/followers",
        "/admin/v1/followers/links",
        "/admin/v1/followers//pause",
        "/spring",
    ] {
        let answer = api.send(get(path, &api.key)).await;
        answer.assert_problem(404, "route_not_found");
    }
    for (path, allow) in [
        (STATUS.to_owned(), "GET, HEAD, OPTIONS"),
        (path("links", "pause"), "POST, OPTIONS"),
        (path("links", "resume"), "POST, OPTIONS"),
    ] {
        let without_key = |method| request(method, &path, "x", Body::empty());
        let answer = api.send(without_key(Method::DELETE)).await;
        answer.assert_problem(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), allow);
        let answer = api.send(without_key(Method::OPTIONS)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("allow")),
            (204, allow)
        );
    }
    api.status().await;
    let head = request(Method::HEAD, STATUS, api.key.reveal(), Body::empty());
    let head = api.send(head).await;
    assert_eq!((head.status.as_u16(), head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn missing_database_is_503() {
    let api = AdminApi::start_with(|config| {
        config.databases = DatabaseSettings::one("postgres://nobody@127.0.0.1:1/none");
    })
    .await;
    let answer = api.send(get(STATUS, &api.key)).await;
    answer.assert_problem(503, "storage_unavailable");
}
