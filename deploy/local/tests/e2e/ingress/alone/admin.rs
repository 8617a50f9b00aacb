//! The server of the admin API.

use serde_json::Value;

use super::method;
use crate::ingress::{
    fixture::Fixture,
    nginx::{self, Addresses, NO_LIMITS, Nginx, Upstreams},
    stub::{
        Behaviour::{Answers, BreaksOff},
        Stub,
    },
};

const ACCOUNT: &str = "/admin/v1/accounts/by-external-id/customers%2F4711";
const STATUS: &str = "/admin/v1/status";
const PAUSE: &str = "/admin/v1/followers/links/pause";

#[tokio::test]
async fn admin_server_routes_by_method_and_path_and_keeps_the_path() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    for (name, path, requests) in [
        ("GET", ACCOUNT, [0, 1, 0]),
        ("HEAD", ACCOUNT, [0, 1, 0]),
        ("POST", ACCOUNT, [1, 0, 0]),
        ("PUT", ACCOUNT, [1, 0, 0]),
        ("PATCH", ACCOUNT, [1, 0, 0]),
        ("DELETE", ACCOUNT, [1, 0, 0]),
        ("OPTIONS", ACCOUNT, [1, 0, 0]),
        ("TRACE", ACCOUNT, [1, 0, 0]),
        ("GET", "/operators/main.js", [0, 1, 0]),
        ("GET", "/admin/v1/followers", [0, 1, 0]),
        ("GET", STATUS, [0, 0, 1]),
        ("POST", STATUS, [0, 0, 1]),
        ("POST", PAUSE, [0, 0, 1]),
    ] {
        let url = format!("{}{path}", fixture.nginx.admin_url);
        let answer = client.request(method(name), url).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{name} {path}");
        let reached = fixture.reached_admin();
        assert_eq!(reached.each_ref().map(Vec::len), requests, "{name} {path}");
        let first_line = format!("{name} {path} HTTP/1.1\r\n");
        assert!(reached.concat()[0].starts_with(&first_line), "{reached:?}");
    }
    assert!(fixture.reached().iter().all(Vec::is_empty));
}

#[tokio::test]
async fn public_hosts_do_not_lead_to_the_admin_api() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    for url in [&fixture.nginx.api_url, &fixture.nginx.short_url] {
        for name in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let request = client.request(method(name), format!("{url}{ACCOUNT}"));
            request.send().await.unwrap();
        }
    }
    assert!(fixture.reached_admin().iter().all(Vec::is_empty));
}

#[tokio::test]
async fn admin_server_closes_internal_paths() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    for path in ["/livez", "/readyz", "/metrics"] {
        let url = format!("{}{path}", fixture.nginx.admin_url);
        let answer = client.get(url).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(body["code"], "route_not_found", "{path}");
    }
    assert!(fixture.reached_admin().iter().all(Vec::is_empty));
}

/// Method, path, idempotency key, and true if nginx may retry the request.
const REPEATED_OR_NOT: &[(&str, &str, Option<&str>, bool)] = &[
    ("GET", ACCOUNT, None, true),
    ("PUT", ACCOUNT, None, true),
    ("DELETE", ACCOUNT, None, true),
    ("POST", ACCOUNT, Some("invoice-7"), true),
    ("POST", ACCOUNT, None, false),
    ("PATCH", ACCOUNT, None, false),
    ("PATCH", ACCOUNT, Some("invoice-7"), false),
    ("GET", STATUS, None, true),
    ("POST", PAUSE, None, false),
    ("POST", PAUSE, Some("ticket-480"), false),
];

#[tokio::test]
async fn admin_server_retries_only_safe_requests() {
    let Some(program) = nginx::program() else {
        return;
    };
    // Two processes: of one, nginx tries only its second entry for a second after a failure.
    let stubs = [Stub::start(BreaksOff).await, Stub::start(BreaksOff).await];
    let both: Vec<String> = stubs.iter().map(|it| it.address.clone()).collect();
    let upstreams = Upstreams::same(both);
    let nginx = Nginx::start(&program, &Addresses::new(), &upstreams, NO_LIMITS).await;
    let client = nginx.client();
    for (name, path, key, is_repeated) in REPEATED_OR_NOT {
        let url = format!("{}{path}", nginx.admin_url);
        let request = client.request(method(name), url);
        let request = match key {
            Some(key) => request.header("idempotency-key", *key),
            None => request,
        };
        let answer = request.body("{}").send().await.unwrap();
        let status = if *name == "GET" { 503 } else { 504 };
        assert_eq!(answer.status(), status, "{name} {path} {key:?}");
        let attempts: usize = stubs.iter().map(|it| it.take().len()).sum();
        let is_right = (attempts > 1) == *is_repeated;
        assert!(is_right, "{name} {path} {key:?}: {attempts} attempts");
    }
}
