//! Requests with several faults: the answer reports the fault that the order of checks names first.
//! `docs/api.md#order-of-checks` has the order.

use axum::{
    body::Body,
    http::{Method, Request},
};
use linkledger_core::api_key::{AdminKey, AdminScope};
use serde_json::json;

use super::{AdminApi, HOST, STATUS, admin_key, path};

/// Codes of the faults that a change of a follower can have, in the order of checks.
const OF_CHANGE: [&str; 12] = [
    "host_not_served",
    "method_not_allowed",
    "authentication_required",
    "insufficient_scope",
    "invalid_parameter",
    "not_acceptable",
    "unsupported_media_type",
    "unsupported_content_encoding",
    "content_too_large",
    "malformed_json",
    "validation_failed",
    "route_not_found",
];

/// Codes of the faults that a read of the status can have, in the order of checks.
const OF_STATUS: [&str; 6] = [
    "host_not_served",
    "method_not_allowed",
    "authentication_required",
    "insufficient_scope",
    "invalid_parameter",
    "not_acceptable",
];

/// Keys of the requests.
struct Keys<'a> {
    /// Has the scope of the route.
    right: &'a AdminKey,
    /// Has another scope.
    other: &'a AdminKey,
}

/// Returns a request to a path with the faults, by their codes.
fn with_faults((method, path): (Method, &str), keys: &Keys<'_>, faults: &[&str]) -> Request<Body> {
    let pick = |code, faulty, valid| {
        if faults.contains(&code) {
            faulty
        } else {
            valid
        }
    };
    let method = if faults.contains(&"method_not_allowed") {
        Method::DELETE
    } else {
        method
    };
    let query = pick("invalid_parameter", "?wrong=1", "");
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{path}{query}"))
        .header("host", pick("host_not_served", "evil.example", HOST))
        .header("accept", pick("not_acceptable", "text/html", "*/*"))
        .header(
            "content-type",
            pick("unsupported_media_type", "text/plain", "application/json"),
        )
        .header(
            "content-encoding",
            pick("unsupported_content_encoding", "gzip", "identity"),
        );
    if !faults.contains(&"authentication_required") {
        let key = if faults.contains(&"insufficient_scope") {
            keys.other
        } else {
            keys.right
        };
        request = request.header("authorization", format!("Bearer {}", key.reveal()));
    }
    request.body(body(faults).into()).unwrap()
}

fn body(faults: &[&str]) -> String {
    if faults.contains(&"content_too_large") {
        "{".repeat(40_000)
    } else if faults.contains(&"malformed_json") {
        "{".to_owned()
    } else if faults.contains(&"validation_failed") {
        json!({ "reason": 7 }).to_string()
    } else {
        json!({ "reason": "ticket 7" }).to_string()
    }
}

#[tokio::test]
async fn first_fault_of_a_change_is_reported() {
    let api = AdminApi::start().await;
    let (_, other) = admin_key(api.pool(), &[AdminScope::Read]).await;
    let keys = Keys {
        right: &api.key,
        other: &other,
    };
    for operation in ["pause", "resume"] {
        for first in 0..OF_CHANGE.len() {
            let faults = &OF_CHANGE[first..];
            let path = path("nobody", operation);
            let answer = api.send(with_faults((Method::POST, &path), &keys, faults));
            let problem = answer.await.json();
            assert_eq!(problem["code"], faults[0], "{operation}");
        }
        let path = path("links", operation);
        let answer = api.send(with_faults((Method::POST, &path), &keys, &[]));
        assert_eq!(answer.await.status, 200);
    }
}

#[tokio::test]
async fn first_fault_of_a_status_is_reported() {
    let api = AdminApi::start().await;
    let (_, other) = admin_key(api.pool(), &[AdminScope::Operations]).await;
    let keys = Keys {
        right: &api.key,
        other: &other,
    };
    for first in 0..OF_STATUS.len() {
        let faults = &OF_STATUS[first..];
        let answer = api.send(with_faults((Method::GET, STATUS), &keys, faults));
        let problem = answer.await.json();
        assert_eq!(problem["code"], faults[0]);
    }
    assert_eq!(api.status().await.status, 200);
}
