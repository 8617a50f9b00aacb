//! Access to the admin API by key and scope, and the routes of each listener.

use axum::{
    body::Body,
    http::{HeaderValue, Request},
};
use linkledger_core::api_key::AdminScope;
use linkledger_event_store::admin_keys;
use serde_json::json;

use super::{
    fixture::{ACCOUNTS, AdminApp, admin_key, assert_problem, request},
    routes::routes,
};
use crate::support::{create, destination, fresh_key, send};

#[tokio::test]
async fn admin_key_opens_only_routes_of_its_scopes() {
    let admin = AdminApp::start().await;
    let app = &admin.app;
    let (_, provisioning) = admin_key(app, &[AdminScope::Accounts, AdminScope::Keys]).await;
    let (_, support) = admin_key(app, &[AdminScope::Links, AdminScope::Read]).await;
    for route in routes(&admin).await {
        let is_of_provisioning = [AdminScope::Accounts, AdminScope::Keys].contains(&route.scope);
        let is_of_support = route.scope == AdminScope::Links;
        for (key, is_admitted) in [
            (&provisioning, is_of_provisioning),
            (&support, is_of_support),
        ] {
            // Without an effect on the other routes.
            let request = request(key, route.method, &route.path, &json!({ "colour": "red" }));
            let answer = admin.send(request).await;
            assert_eq!(
                answer.status != 403,
                is_admitted,
                "{}: {answer:?}",
                route.path
            );
            if !is_admitted {
                assert_eq!(answer.problem(), "insufficient_scope");
                assert_eq!(
                    answer.json()["required_scopes"],
                    json!([route.scope.name()])
                );
            }
        }
    }
}

#[tokio::test]
async fn key_of_one_api_is_no_key_of_the_other() {
    let admin = AdminApp::start().await;
    let (_, api_key) = admin.app.account(1).await;
    let with_key = |mut request: Request<Body>, key: &str| {
        let bearer = HeaderValue::from_str(&format!("Bearer {key}")).unwrap();
        request.headers_mut().insert("authorization", bearer);
        request
    };
    let body = json!({ "name": "x" });
    let of_account = request(&admin.key, "POST", ACCOUNTS, &body);
    let of_account = admin.send(with_key(of_account, api_key.reveal())).await;
    assert_problem(&of_account, 401, "api_key_invalid");
    let public = create(&api_key, fresh_key(), &destination());
    let public = send(&admin.app.router, with_key(public, admin.key.reveal())).await;
    assert_problem(&public, 401, "api_key_invalid");
    for key in ["lla_", "lla_000000000000000000000000000000000000", "x", ""] {
        let answer = request(&admin.key, "POST", ACCOUNTS, &body);
        let answer = admin.send(with_key(answer, key)).await;
        assert_problem(&answer, 401, "api_key_invalid");
        assert!(answer.header("www-authenticate").contains("invalid_token"));
    }
}

#[tokio::test]
async fn revoked_admin_key_is_refused_at_once() {
    let admin = AdminApp::start().await;
    let body = json!({ "name": "x" });
    admin.done("POST", ACCOUNTS, &body).await;
    let pool = admin.app.database.pool();
    let revoked_at = admin_keys::revoke(pool, admin.key_id, "kim@ops-1").await;
    assert!(revoked_at.unwrap().is_some());
    let answer = admin.call("POST", ACCOUNTS, &body).await;
    assert_problem(&answer, 401, "api_key_revoked");
}

#[tokio::test]
async fn expired_admin_key_is_refused() {
    let admin = AdminApp::start().await;
    sqlx::query("UPDATE event_store.admin_keys SET expires_at = now() - interval '1 second'")
        .execute(admin.app.database.pool())
        .await
        .unwrap();
    let answer = admin.call("POST", ACCOUNTS, &json!({ "name": "x" })).await;
    assert_problem(&answer, 401, "api_key_expired");
}

#[tokio::test]
async fn listener_knows_only_paths_of_its_api() {
    let admin = AdminApp::start().await;
    let (_, api_key) = admin.app.account(1).await;
    for route in routes(&admin).await {
        let mut on_public = request(&admin.key, route.method, &route.path, &route.body);
        let host = HeaderValue::from_static("api.sho.rt");
        on_public.headers_mut().insert("host", host);
        let answer = send(&admin.app.router, on_public).await;
        assert_problem(&answer, 404, "route_not_found");

        let mut options = request(&admin.key, "OPTIONS", &route.path, &json!({}));
        options.headers_mut().remove("authorization");
        let answer = admin.send(options).await;
        assert_eq!(answer.status, 204, "{}", route.path);
        let allow = answer.header("allow").to_owned();
        assert!(
            allow.contains(route.method) && allow.ends_with("OPTIONS"),
            "{allow}"
        );
    }
    let mut on_admin = create(&api_key, fresh_key(), &destination());
    let host = HeaderValue::from_static("10.0.0.1");
    on_admin.headers_mut().insert("host", host);
    assert_problem(&admin.send(on_admin).await, 404, "route_not_found");
    for path in ["/admin", "/admin/v1", "/docs", "/spring-sale"] {
        let answer = admin.call("POST", path, &json!({})).await;
        assert_problem(&answer, 404, "route_not_found");
        assert!(!answer.json()["detail"].to_string().contains("sho.rt"));
    }
}

#[tokio::test]
async fn names_with_dots_are_not_served() {
    let admin = AdminApp::start().await;
    for (host, status) in [
        ("localhost:8085", 201),
        ("command-api", 201),
        ("[::1]:8085", 201),
        ("api.sho.rt", 421),
        ("127.0.0.1.evil.example", 421),
    ] {
        let mut request = request(&admin.key, "POST", ACCOUNTS, &json!({ "name": "x" }));
        let value = HeaderValue::from_static(host);
        request.headers_mut().insert("host", value);
        let answer = admin.send(request).await;
        assert_eq!(answer.status, status, "{host}: {answer:?}");
    }
}
