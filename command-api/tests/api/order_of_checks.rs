//! Requests with several faults: the answer reports the fault that the order of checks names first.
//! `docs/api.md#order-of-checks` has the order.

mod fault;

use axum::{body::Body, http::HeaderValue};
use futures::future::select_all;
use linkledger_core::id::LinkId;
use linkledger_event_store::{accounts, transaction::PoolTransaction};
use linkledger_http::problem::Code;
use serde_json::json;

use crate::support::{TestApp, change, create, fresh_key, link, send, with};
use fault::{Fixture, Operation};

const OPERATIONS: [Operation; 4] = [
    Operation::Create,
    Operation::Batch,
    Operation::Change,
    Operation::Delete,
];

#[tokio::test]
async fn first_of_two_faults_is_reported() {
    let fixture = Fixture::new().await;
    for operation in OPERATIONS {
        let faults = operation.faults();
        for (first, fault) in faults.iter().enumerate() {
            let code = fault.code();
            for other in &faults[first..] {
                // Given in reverse: the order in which the request gets its faults must not matter.
                let answer = fixture.answer(operation, &[*other, *fault]).await;
                assert_eq!(
                    (answer.status.as_u16(), answer.problem().as_str()),
                    (code.status(), code.as_str()),
                    "{operation:?}: {fault:?} and {other:?}"
                );
            }
        }
        let answer = fixture.answer(operation, &[]).await;
        assert!(answer.status.is_success(), "{operation:?}: {answer:?}");
    }
}

#[tokio::test]
async fn faults_are_reported_in_order_of_checks() {
    let fixture = Fixture::new().await;
    for operation in OPERATIONS {
        let faults = operation.faults();
        for (first, fault) in faults.iter().enumerate() {
            let answer = fixture.answer(operation, &faults[first..]).await;
            let code = fault.code().as_str();
            assert_eq!(answer.problem(), code, "{operation:?}: {fault:?}");
        }
    }
}

/// Codes without a [`fault::Fault`], each with a file of tests in which a request causes the code.
const ELSEWHERE: [(Code, &str); 27] = [
    (Code::BodyNotObject, include_str!("order_of_checks.rs")),
    (
        Code::IdempotencyKeyInvalid,
        include_str!("order_of_checks.rs"),
    ),
    (
        Code::IdempotencyKeyInUse,
        include_str!("order_of_checks.rs"),
    ),
    (Code::ApiKeyInvalid, include_str!("order_of_checks.rs")),
    (Code::ApiKeyExpired, include_str!("create_link.rs")),
    (Code::ApiKeyRevoked, include_str!("create_link.rs")),
    (Code::UriTooLong, include_str!("raw_http/head.rs")),
    (Code::HeadersTooLarge, include_str!("raw_http/head.rs")),
    (Code::InternalError, include_str!("faults.rs")),
    (Code::StorageUnavailable, include_str!("faults.rs")),
    (Code::DeadlineExceeded, include_str!("faults.rs")),
    (
        Code::AccountNotFound,
        include_str!("admin_routes/accounts.rs"),
    ),
    (
        Code::ConsoleCodeInvalid,
        include_str!("admin_routes/console_sessions.rs"),
    ),
    (Code::KeyNotFound, include_str!("admin_routes/keys.rs")),
    (Code::KeyNotValid, include_str!("admin_routes/keys.rs")),
    (Code::EntryNotFound, include_str!("admin_routes/credits.rs")),
    (
        Code::AlreadyRefunded,
        include_str!("admin_routes/credits.rs"),
    ),
    (
        Code::AlreadyRevoked,
        include_str!("admin_routes/credits.rs"),
    ),
    (Code::WebhookNotFound, include_str!("webhooks.rs")),
    (Code::DeliveryNotFound, include_str!("webhooks.rs")),
    (Code::WebhookLimitReached, include_str!("webhooks.rs")),
    (Code::ReplayInProgress, include_str!("webhooks.rs")),
    (Code::WebhookDisabled, include_str!("webhooks.rs")),
    (Code::WebhooksOff, include_str!("webhooks.rs")),
    (
        Code::ShortLinkGone,
        include_str!("../../../query-api/tests/api/gone.rs"),
    ),
    (
        Code::InvalidCursor,
        include_str!("../../../query-api/tests/api/list_links.rs"),
    ),
    (
        Code::LogRestored,
        include_str!("../../../query-api/tests/api/feed.rs"),
    ),
];
/// Codes that need a failure of the machine at the right moment.
const BY_NO_REQUEST: [Code; 2] = [Code::Overloaded, Code::ReadModelBehind];

#[test]
fn tests_cause_every_problem_code() {
    let faults = OPERATIONS.iter().flat_map(|operation| operation.faults());
    let mut codes: Vec<&str> = faults.map(|fault| fault.code().as_str()).collect();
    for (code, tests) in ELSEWHERE {
        let quoted = format!("\"{}\"", code.as_str());
        assert!(tests.contains(&quoted), "no test causes {quoted}");
        codes.push(code.as_str());
    }
    codes.extend(BY_NO_REQUEST.map(Code::as_str));
    codes.sort_unstable();
    codes.dedup();
    let mut catalogue: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    catalogue.sort_unstable();
    assert_eq!(codes, catalogue);
}

#[tokio::test]
async fn malformed_keys_and_bodies_are_rejected() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    for body in ["null", "[]", "\"x\"", "1", "true"] {
        let mut request = create(&key, fresh_key(), &link("spring"));
        *request.body_mut() = Body::from(body);
        let answer = send(&app.router, request).await;
        assert_eq!(answer.problem(), "body_not_object", "{body}");
    }
    for idempotency_key in ["", "x", "{0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0}"] {
        let mut request = create(&key, fresh_key(), &link("spring"));
        request
            .headers_mut()
            .insert("idempotency-key", HeaderValue::from_static(idempotency_key));
        let answer = send(&app.router, request).await;
        assert_eq!(answer.problem(), "idempotency_key_invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_running_request_is_in_use() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1).await;
    let mut holder = PoolTransaction::begin(app.database.pool()).await.unwrap();
    accounts::lock_in_tx(&mut holder, &[account_id])
        .await
        .unwrap();
    let used = fresh_key();
    let request = || Box::pin(send(&app.router, create(&key, used, &link("spring"))));
    // The second request is answered at once; the first request waits for the account.
    let (refused, _, waiting) = select_all([request(), request()]).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.problem(), "idempotency_key_in_use");
    assert_eq!(refused.header("retry-after"), "1");
    holder.rollback().await.unwrap();
    assert_eq!(select_all(waiting).await.0.status, 201);
}

#[tokio::test]
async fn oversized_chunked_body_is_rejected() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let unknown = LinkId::from_uuid(fresh_key()).to_string();
    let of_change = with(change(&key, &unknown, &json!({})), "if-match", "1");
    let of_create = create(&key, fresh_key(), &link("spring"));
    for mut request in [of_create, of_change] {
        *request.body_mut() = Body::from(format!("{{\"slug\":\"{}\"}}", "a".repeat(32 * 1024)));
        let answer = send(&app.router, request).await;
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (413, "content_too_large")
        );
    }
}

#[tokio::test]
async fn malformed_credentials_are_rejected() {
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
