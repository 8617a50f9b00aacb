//! Bodies, headers and paths that nobody sends by mistake: refused as a whole, with every error, and without an effect.

use serde_json::{Value, json};

use super::fixture::{ACCOUNTS, AdminApp, assert_problem, post, request};
use crate::support::Answer;

/// Returns pointer and code of each error.
fn errors(answer: &Answer) -> Vec<String> {
    assert_problem(answer, 422, "validation_failed");
    let errors = answer.json()["errors"].as_array().unwrap().clone();
    let text = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    errors
        .iter()
        .map(|error| format!("{} {}", text(error, "pointer"), text(error, "code")))
        .collect()
}

/// Method, path, body, and the errors that it must get.
type Case<'a> = (&'a str, String, Value, &'a [&'a str]);

async fn assert_errors(admin: &AdminApp, cases: &[Case<'_>]) {
    for (method, path, body, expected) in cases {
        let answer = admin.call(method, path, body).await;
        assert_eq!(errors(&answer), *expected, "{method} {path}: {body}");
    }
    // The account of the test is the only effect.
    let events = "SELECT count(*)::text FROM event_store.events";
    assert_eq!(admin.stored(events).await, "1");
}

#[tokio::test]
async fn all_errors_of_an_account_are_reported() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let cases: &[Case<'_>] = &[
        (
            "POST",
            ACCOUNTS.to_owned(),
            json!({
                "external_id": "a b", "id": "x", "Name": "x", "low_balance_at": [0, 1.5, "7", 7],
            }),
            &[
                "#/Name unknown_field",
                "#/external_id external_id_invalid",
                "#/id unknown_field",
                "#/low_balance_at/0 threshold_invalid",
                "#/low_balance_at/1 threshold_invalid",
                "#/low_balance_at/2 wrong_type",
                "#/name required",
            ],
        ),
        (
            "PUT",
            format!("{ACCOUNTS}/by-external-id/x"),
            json!({ "name": null, "external_id": "x", "low_balance_at": [1, 2, 3, 4, 5, 6] }),
            &[
                "#/external_id unknown_field",
                "#/low_balance_at too_many_thresholds",
                "#/name null_not_allowed",
            ],
        ),
        (
            "PATCH",
            account.clone(),
            json!({
                "name": null, "external_id": 7, "balance": 5, "state": "active",
                "low_balance_at": null,
            }),
            &[
                "#/balance field_not_mutable",
                "#/external_id wrong_type",
                "#/low_balance_at null_not_allowed",
                "#/name null_not_allowed",
                "#/state field_not_mutable",
            ],
        ),
        (
            "POST",
            format!("{account}/suspend"),
            json!({ "reason": "two\nlines", "stop_redirects": "true" }),
            &["#/reason text_invalid", "#/stop_redirects wrong_type"],
        ),
        (
            "POST",
            format!("{account}/resume"),
            json!({ "reason": "x\u{0}" }),
            &["#/reason text_invalid"],
        ),
    ];
    assert_errors(&admin, cases).await;
}

#[tokio::test]
async fn all_errors_of_a_key_are_reported() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let key = "/admin/v1/keys/key_01h455vb4pex5vsknk084sn02q";
    let sha256 = "g".repeat(64);
    let cases: &[Case<'_>] = &[
        (
            "POST",
            format!("{account}/keys"),
            json!({
                "scopes": ["admin:read", 1], "name": " x", "expires_at": "tomorrow",
                "secret_sha256": sha256,
            }),
            &[
                "#/expires_at expires_at_invalid",
                "#/name text_invalid",
                "#/scopes/0 scope_invalid",
                "#/scopes/1 wrong_type",
                "#/secret_sha256 secret_sha256_invalid",
            ],
        ),
        (
            "POST",
            format!("{account}/keys"),
            json!({ "scopes": [], "expires_at": null }),
            &["#/expires_at null_not_allowed", "#/scopes scopes_empty"],
        ),
        (
            "POST",
            format!("{account}/keys"),
            json!({ "scopes": ["link:links.read"], "expires_at": "2020-01-01T00:00:00Z" }),
            &["#/expires_at expires_at_in_the_past"],
        ),
        (
            "PATCH",
            key.to_owned(),
            json!({ "secret": "x", "scopes": "link:links.read", "revoked_at": null }),
            &[
                "#/revoked_at field_not_mutable",
                "#/scopes wrong_type",
                "#/secret field_not_mutable",
            ],
        ),
        (
            "POST",
            format!("{key}/rotate"),
            json!({ "overlap_seconds": 604_801 }),
            &["#/overlap_seconds overlap_invalid"],
        ),
    ];
    assert_errors(&admin, cases).await;
}

#[tokio::test]
async fn all_errors_of_a_console_session_are_reported() {
    let admin = AdminApp::start().await;
    let sessions = format!("{}/console-sessions", admin.account().await);
    let case =
        |body: Value, errors: &'static [&'static str]| ("POST", sessions.clone(), body, errors);
    let cases: &[Case<'_>] = &[
        case(
            json!({ "scopes": ["admin:read"], "return_url": "javascript:alert(1)", "name": "x" }),
            &[
                "#/name unknown_field",
                "#/return_url return_url_invalid",
                "#/scopes/0 scope_invalid",
            ],
        ),
        case(
            json!({ "return_url": null }),
            &["#/return_url null_not_allowed", "#/scopes required"],
        ),
        case(
            json!({ "scopes": [], "return_url": ["https://shop.example.com/"] }),
            &["#/return_url wrong_type", "#/scopes scopes_empty"],
        ),
        case(
            json!({ "scopes": ["link:links.read"], "return_url": "//shop.example.com/" }),
            &["#/return_url return_url_invalid"],
        ),
    ];
    assert_errors(&admin, cases).await;
    let sessions = "SELECT count(*)::text FROM event_store.console_sessions";
    assert_eq!(admin.stored(sessions).await, "0");
}

#[tokio::test]
async fn all_errors_of_credits_and_links_are_reported() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let long = "x".repeat(201);
    let cases: &[Case<'_>] = &[
        (
            "POST",
            format!("{account}/grants"),
            json!({ "amount": 0, "reason": long, "reference": "caf\u{e9}", "description": "" }),
            &[
                "#/amount amount_invalid",
                "#/description text_invalid",
                "#/reason text_invalid",
                "#/reference reference_invalid",
            ],
        ),
        (
            "POST",
            format!("{account}/adjustments"),
            json!({ "amount": 1.5, "reason": [] }),
            &["#/amount amount_invalid", "#/reason wrong_type"],
        ),
        (
            "POST",
            format!("{account}/refunds"),
            json!({ "entry": "evt_01h455vb4pex5vsknk084sn02q" }),
            &["#/entry entry_id_invalid", "#/reason required"],
        ),
        (
            "POST",
            format!("{account}/revocations"),
            json!({ "entry": "ent_01h455vb4pex5vsknk084sn02q", "reason": "x" }),
            &["#/entry unknown_field", "#/grant required"],
        ),
        (
            "POST",
            format!("{account}/balance"),
            json!({ "balance": -1, "reason": "x\u{202e}" }),
            &["#/balance balance_invalid", "#/reason text_invalid"],
        ),
        (
            "POST",
            "/admin/v1/links/lnk_1/disable".to_owned(),
            json!({ "reason": {} }),
            &["#/reason wrong_type"],
        ),
    ];
    assert_errors(&admin, cases).await;
}

#[tokio::test]
async fn ambiguous_bodies_are_malformed() {
    let admin = AdminApp::start().await;
    for (body, code) in [
        (r#"{"name":"x","name":"y"}"#, "malformed_json"),
        (r#"{"name":"x","n\u0061me":"y"}"#, "malformed_json"),
        ("\u{feff}{\"name\":\"x\"}", "malformed_json"),
        (r#"{"name":"\ud800"}"#, "malformed_json"),
        (r#"{"name":"x"} {}"#, "malformed_json"),
        ("", "malformed_json"),
        (r#"[{"name":"x"}]"#, "body_not_object"),
        ("null", "body_not_object"),
    ] {
        let mut request = request(&admin.key, "POST", ACCOUNTS, &json!({}));
        *request.body_mut() = body.to_owned().into();
        assert_problem(&admin.send(request).await, 400, code);
    }
    let long = json!({ "name": "x".repeat(40_000) });
    let answer = admin.call("POST", ACCOUNTS, &long).await;
    assert_problem(&answer, 413, "content_too_large");
}

#[tokio::test]
async fn idempotency_key_is_short_printable_and_single() {
    let admin = AdminApp::start().await;
    let body = json!({ "name": "x" });
    for key in ["a\tb", &"k".repeat(129)] {
        let answer = admin.post(ACCOUNTS, key, &body).await;
        assert_problem(&answer, 400, "idempotency_key_invalid");
    }
    let mut twice = post(&admin.key, ACCOUNTS, "one", &body);
    let second = "one".parse().unwrap();
    twice.headers_mut().append("idempotency-key", second);
    let answer = admin.send(twice).await;
    assert_problem(&answer, 400, "idempotency_key_invalid");
    for key in ["~", &"k".repeat(128), "\"quoted\"", "Order 7: a/b"] {
        let answer = admin.post(ACCOUNTS, key, &body).await;
        assert_eq!(answer.status, 201, "{key}: {answer:?}");
    }
    assert_eq!(admin.app.count("AccountCreated").await, 4);
}

#[tokio::test]
async fn external_id_in_path_is_checked() {
    let admin = AdminApp::start().await;
    let body = json!({ "name": "x" });
    let too_long = "x".repeat(129);
    for (part, status, code) in [
        ("a%20b", 400, "invalid_parameter"),
        ("a%00", 400, "invalid_parameter"),
        ("%ff", 400, "invalid_parameter"),
        ("a%2", 400, "invalid_parameter"),
        (&too_long, 400, "invalid_parameter"),
        ("a/b", 404, "route_not_found"),
        ("", 404, "route_not_found"),
    ] {
        let path = format!("{ACCOUNTS}/by-external-id/{part}");
        let answer = admin.call("PUT", &path, &body).await;
        assert_problem(&answer, status, code);
        if status == 400 {
            let error = answer.json()["errors"][0].clone();
            assert_eq!(error["parameter"], "external_id", "{part}");
        }
    }
}
