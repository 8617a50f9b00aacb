//! The checks before every route: paths, methods, keys, limits, `Accept`; and their order.

use std::time::Instant;

use axum::http::Method;
use futures::future::join_all;
use linkledger_core::api_key::{ApiKey, Scope};
use linkledger_testing as testing;
use linkledger_testing::{TestDatabase, eventually};

use crate::service::{ReadRoute, TestCaller, TestService, read_paths, read_routes};

const UNKNOWN_LINK: &str = "lnk_00000000000000000000000000";
/// Requests per second, and requests at once, of the limit under test.
const RATE: u32 = 2;
const BURST: u32 = 4;

/// Returns the paths of all routes that read.
fn paths() -> Vec<String> {
    read_paths(UNKNOWN_LINK)
}

#[tokio::test]
async fn unknown_paths_and_methods_are_rejected() {
    let service = TestService::start().await;
    for path in [
        "//",
        "/v1/links/",
        "/V1/links",
        "/v1//links",
        "/v1/links/a/b",
    ] {
        let answer = service.call_api(Method::GET, path, &[]).await;
        answer.assert_problem(404, "route_not_found");
    }
    // A route of command-api, whose path looks like that of a link.
    let answer = service.call_api(Method::GET, "/v1/links/batch", &[]).await;
    answer.assert_problem(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    for path in paths() {
        let answer = service.call_api(Method::PUT, &path, &[]).await;
        answer.assert_problem(405, "method_not_allowed");
        let allowed = answer.header("allow").unwrap().to_owned();
        assert!(allowed.starts_with("GET, HEAD, "), "{allowed}");
        let answer = service.call_api(Method::OPTIONS, &path, &[]).await;
        assert_eq!(answer.status, 204);
        assert_eq!(answer.header("allow"), Some(allowed.as_str()));
    }
}

#[tokio::test]
async fn api_key_is_checked_first() {
    let service = TestService::start().await;
    let unknown = format!("Bearer {}", ApiKey::generate().reveal());
    for path in paths().into_iter().map(|path| format!("{path}?wrong=1")) {
        for (headers, code) in [
            (&[][..], "authentication_required"),
            (
                &[("authorization", "Basic eDp5")],
                "authentication_required",
            ),
            (&[("authorization", "Bearer x")], "api_key_invalid"),
            (&[("authorization", unknown.as_str())], "api_key_invalid"),
        ] {
            let answer = service.call_api(Method::GET, &path, headers).await;
            answer.assert_problem(401, code);
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.starts_with("Bearer realm="), "{challenge}");
        }
    }
}

#[tokio::test]
async fn read_requires_scope() {
    let service = TestService::start().await;
    let account_id = testing::account(service.pool(), 0).await;
    for ReadRoute { path, scopes } in read_routes() {
        let path = path.replace("{id}", UNKNOWN_LINK);
        for needed in &scopes {
            let others: Vec<Scope> = Scope::ALL.into_iter().filter(|it| it != needed).collect();
            let key = testing::api_key(service.pool(), account_id, &others).await;
            let caller = TestCaller { account_id, key };
            let answer = service.get(&caller, &format!("{path}?wrong=1")).await;
            answer.assert_problem(403, "insufficient_scope");
            assert_eq!(answer.json()["required_scopes"][0], needed.name());
        }
        let key = testing::api_key(service.pool(), account_id, &scopes).await;
        let answer = service.get(&TestCaller { account_id, key }, &path).await;
        assert_ne!(answer.status, 403, "{path}");
    }
}

#[tokio::test]
async fn suspended_account_reads_its_credits_only() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    sqlx::query("UPDATE event_store.accounts SET status = 'suspended'")
        .execute(service.pool())
        .await
        .unwrap();
    for route in read_routes() {
        let path = route.path.replace("{id}", UNKNOWN_LINK);
        let answer = service.get(&caller, &path).await;
        if route.serves_suspended_accounts() {
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        } else {
            answer.assert_problem(403, "account_suspended");
        }
    }
}

#[tokio::test]
async fn all_routes_share_one_rate_limit() {
    let database = TestDatabase::create().await;
    let service = TestService::start_with(database, |config| config.rate_limit = RATE).await;
    let caller = service.caller().await;
    let begun = Instant::now();
    let mut granted = 0;
    let paths = paths();
    for path in paths.iter().cycle().take(5 * paths.len()) {
        let answer = service.get(&caller, path).await;
        assert!(answer.header("ratelimit").is_some(), "{path}");
        granted += u32::from(answer.status != 429);
    }
    let seconds = u32::try_from(begun.elapsed().as_secs()).unwrap();
    let at_most = BURST + RATE * (seconds + 1);
    assert!(granted <= at_most, "{granted} of {at_most}");
    let refusal = eventually("a request is refused", async || {
        let answers = join_all((0..50).map(|_| service.get(&caller, &paths[0]))).await;
        answers.into_iter().find(|answer| answer.status == 429)
    });
    let refusal = refusal.await;
    refusal.assert_problem(429, "rate_limited");
    assert!(refusal.header("retry-after").is_some());
}

#[tokio::test]
async fn query_then_accept_then_headers_are_checked() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let headers = [("accept", "text/html"), ("consistency-token", "x")];
    for path in paths() {
        let wrong_query = format!("{path}?wrong=1");
        let answer = service.get_with(&caller, &wrong_query, &headers).await;
        answer.assert_problem(400, "invalid_parameter");
        let answer = service.get_with(&caller, &path, &headers).await;
        answer.assert_problem(406, "not_acceptable");
        let answer = service.get_with(&caller, &path, &headers[1..]).await;
        answer.assert_problem(400, "invalid_header");
    }
    let wrong_cursor = "/v1/links?cursor=x";
    let answer = service.get_with(&caller, wrong_cursor, &headers).await;
    answer.assert_problem(400, "invalid_cursor");
}

#[tokio::test]
async fn head_works_wherever_get_does() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let bearer = format!("Bearer {}", caller.key.reveal());
    let headers = [("authorization", bearer.as_str())];
    for path in paths() {
        let head = service.call_api(Method::HEAD, &path, &headers).await;
        let get = service.get(&caller, &path).await;
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(head.body, "", "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"));
        assert_eq!(head.header("content-length"), get.header("content-length"));
    }
}
