//! The checks before every read of the admin API: hosts, paths, methods, keys, scopes, parameters; and their order.

use axum::http::Method;
use linkledger_core::api_key::{AdminKey, AdminScope, ApiKey};
use linkledger_event_store::admin_keys;
use linkledger_http::{
    problem::Code,
    route_table::{ADMIN_STATUS, ADMIN_TABLE},
};

use super::{ACCOUNTS, Fixture, UNKNOWN_ACCOUNT, UNKNOWN_KEY, UNKNOWN_LINK, admin_key};
use crate::service::{Answer, TestService};

const UNKNOWN_WEBHOOK: &str = "whe_00000000000000000000000000";

/// Returns a valid request for each route of query-api that reads; those that name something name nothing that exists.
fn reads() -> Vec<String> {
    let reads = ADMIN_TABLE.iter().filter(|(path, methods)| {
        let is_of_query_api = path.starts_with("/admin/") && *path != ADMIN_STATUS;
        is_of_query_api && methods.contains(&Method::GET)
    });
    let paths = reads.map(|(path, _)| {
        let path = path.replace("{account_id}", UNKNOWN_ACCOUNT);
        let path = path.replace("{key_id}", UNKNOWN_KEY);
        let path = path.replace("{link_id}", UNKNOWN_LINK);
        let path = path.replace("{external_id}", "crm%2F7");
        let path = path.replace("{webhook_id}", UNKNOWN_WEBHOOK);
        let path = path.replace("{delivery_id}", "dlv_00000000000000000000000000");
        if path.ends_with("/links") {
            format!("{path}?slug=abc")
        } else {
            path
        }
    });
    paths.collect()
}

/// Returns the path with one more parameter.
fn with_parameter(path: &str, parameter: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}{parameter}")
}

async fn call(service: &TestService, path: &str, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    service.call_admin(Method::GET, path, &headers).await
}

#[tokio::test]
async fn admin_key_with_scope_is_required() {
    let fixture = Fixture::new().await;
    let service = &fixture.service;
    let caller = service.caller().await;
    let others: Vec<AdminScope> = AdminScope::ALL
        .into_iter()
        .filter(|scope| *scope != AdminScope::Read)
        .collect();
    let without = admin_key(fixture.pool(), &others).await;
    assert_eq!(reads().len(), 14, "{:?}", reads());
    for path in reads() {
        let path = with_parameter(&path, "wrong=1");
        let answer = service.call_admin(Method::GET, &path, &[]).await;
        answer.assert_problem(401, "authentication_required");
        for token in [
            "x",
            AdminKey::generate().reveal(),
            ApiKey::generate().reveal(),
            caller.key.reveal(),
        ] {
            let answer = call(service, &path, token).await;
            answer.assert_problem(401, "api_key_invalid");
        }
        let answer = call(service, &path, without.reveal()).await;
        answer.assert_problem(403, "insufficient_scope");
        assert_eq!(answer.json()["required_scopes"][0], "admin:read");
    }
    let bearer = format!("Bearer {}", fixture.key.reveal());
    let headers = [("authorization", bearer.as_str())];
    let answer = service.call_api(Method::GET, "/v1/links", &headers).await;
    answer.assert_problem(401, "api_key_invalid");
}

#[tokio::test]
async fn revoked_admin_key_is_refused_at_once() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.get(ACCOUNTS).await.status, 200);
    let keys = admin_keys::list(fixture.pool()).await.unwrap();
    admin_keys::revoke(fixture.pool(), keys[0].key_id, "ann")
        .await
        .unwrap();
    let answer = fixture.get(ACCOUNTS).await;
    answer.assert_problem(401, "api_key_revoked");
}

#[tokio::test]
async fn query_then_accept_then_existence_are_checked() {
    let fixture = Fixture::new().await;
    let headers = [("accept", "text/html")];
    for path in reads() {
        let wrong = with_parameter(&path, "wrong=1");
        let answer = fixture.get_with(&wrong, &headers).await;
        answer.assert_problem(400, "invalid_parameter");
        let answer = fixture.get_with(&path, &headers).await;
        answer.assert_problem(406, "not_acceptable");
        let answer = fixture.get(&path).await;
        let code = match path.as_str() {
            "/admin/v1/accounts" | "/admin/v1/events" | "/admin/v1/webhooks" => None,
            _ if path.starts_with("/admin/v1/webhooks") => Some(Code::WebhookNotFound),
            _ if path.starts_with("/admin/v1/links") => Some(Code::LinkNotFound),
            _ if path.starts_with("/admin/v1/keys") => Some(Code::KeyNotFound),
            _ => Some(Code::AccountNotFound),
        };
        match code {
            Some(code) => answer.assert_problem(404, code.as_str()),
            None => assert_eq!(answer.status, 200, "{path}: {}", answer.body),
        }
    }
    for (path, code) in [
        (format!("{ACCOUNTS}?cursor=x"), "invalid_cursor"),
        (
            format!("{ACCOUNTS}/{UNKNOWN_ACCOUNT}/keys?cursor=x"),
            "invalid_cursor",
        ),
        (
            format!("/admin/v1/links/{UNKNOWN_LINK}/events?cursor=x"),
            "invalid_cursor",
        ),
        ("/admin/v1/events?after=x".to_owned(), "invalid_cursor"),
        (
            "/admin/v1/events?latest=true&after=x".to_owned(),
            "invalid_parameter",
        ),
        (
            "/admin/v1/events?type=LinkPainted".to_owned(),
            "invalid_parameter",
        ),
        ("/admin/v1/events?limit=101".to_owned(), "invalid_parameter"),
        (format!("{ACCOUNTS}?q=ab"), "invalid_parameter"),
    ] {
        let answer = fixture.get_with(&path, &headers).await;
        answer.assert_problem(400, code);
    }
}

#[tokio::test]
async fn listener_has_no_paths_of_others() {
    let fixture = Fixture::new().await;
    for path in [
        "/v1/links",
        "/docs",
        "/openapi.json",
        "/console",
        "/console/",
        "/admin",
        "/admin/v1",
        "/admin/v1/accounts/",
        "/admin/v1/keys",
        // The projector answers it.
        ADMIN_STATUS,
        "/spring",
    ] {
        fixture
            .get(path)
            .await
            .assert_problem(404, "route_not_found");
        let answer = fixture.service.call_api(Method::GET, ACCOUNTS, &[]).await;
        answer.assert_problem(404, "route_not_found");
    }
    for path in reads() {
        let bearer = format!("Bearer {}", fixture.key.reveal());
        let headers = [("authorization", bearer.as_str())];
        let service = &fixture.service;
        let head = service.call_admin(Method::HEAD, &path, &headers).await;
        let get = fixture.get(&path).await;
        assert_eq!((head.status, head.body.as_str()), (get.status, ""));
        let answer = service.call_admin(Method::TRACE, &path, &headers).await;
        answer.assert_problem(405, "method_not_allowed");
        let allowed = answer.header("allow").unwrap().to_owned();
        assert!(allowed.starts_with("GET, HEAD, "), "{path}: {allowed}");
        let answer = service.call_admin(Method::OPTIONS, &path, &[]).await;
        assert_eq!(answer.status, 204);
        assert_eq!(answer.header("allow"), Some(allowed.as_str()));
    }
}
