//! Console sessions: the code that opens the console once, and the key for which it is exchanged.

use axum::{body::Body, http::Request};
use futures::future::join_all;
use linkledger_command_api::admin::{
    author::{Author, Request as AdminRequest},
    console_session,
    error::{AdminError, AdminRefusal},
};
use linkledger_core::{api_key::ApiKey, clock::SystemClock, console_code::ConsoleCode};
use linkledger_testing::record;
use serde_json::{Value, json};

use super::fixture::{AdminApp, assert_problem, request, text};
use crate::support::{Answer, create, destination, fresh_key, send, with};

/// Beginning of the addresses that open the console.
const ADDRESS: &str = "https://api.sho.rt/console/#/enter?code=";
const VALID: &str =
    "UPDATE event_store.admin_keys SET revoked_at = NULL, revoked_by = NULL, expires_at = NULL";
const SESSIONS: &str = "SELECT count(*)::text FROM event_store.console_sessions";

fn sessions_of(account: &str) -> String {
    format!("{account}/console-sessions")
}

fn code_of(opened: &Value) -> String {
    let code = text(&opened["url"]).strip_prefix(ADDRESS).unwrap();
    record::secret(record::Secret::ApiKey, code);
    code.to_owned()
}

/// Opens a session with the scope, and returns its code.
async fn open(admin: &AdminApp, account: &str, scope: &str) -> String {
    let body = json!({ "scopes": [scope] });
    code_of(&admin.done("POST", &sessions_of(account), &body).await)
}

/// Returns a valid exchange. Tests change the part under test.
fn exchange(body: &Value) -> Request<Body> {
    Request::post("/console/session")
        .header("host", "api.sho.rt")
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

async fn enter(admin: &AdminApp, code: &str) -> Answer {
    let answer = send(&admin.app.router, exchange(&json!({ "code": code }))).await;
    if answer.status == 200 {
        record::secret(record::Secret::ApiKey, text(&answer.json()["api_key"]));
    }
    answer
}

/// Enters the console, and creates a link with its key.
async fn create_in_console(admin: &AdminApp, code: &str) -> Answer {
    let entered = enter(admin, code).await;
    assert_eq!(entered.status, 200, "{entered:?}");
    let key = ApiKey::parse(text(&entered.json()["api_key"])).unwrap();
    send(&admin.app.router, create(&key, fresh_key(), &destination())).await
}

async fn execute(admin: &AdminApp, statement: &'static str) {
    let executed = sqlx::query(statement).execute(admin.app.database.pool());
    executed.await.unwrap();
}

#[tokio::test]
async fn code_is_exchanged_once_for_a_key_of_eight_hours() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let way_back = "https://shop.example.com/account?customer=7";
    let body = json!({
        "scopes": ["link:links.read", "link:links.write"], "return_url": way_back,
    });
    let opened = admin.call("POST", &sessions_of(&account), &body).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    assert_eq!(opened.header("cache-control"), "no-store");
    assert!(opened.json()["expires_at"].is_string());
    let code = code_of(&opened.json());
    assert_eq!(admin.app.count("ApiKeyIssued").await, 0);

    let entered = enter(&admin, &code).await;
    assert_eq!(entered.status, 200, "{entered:?}");
    assert_eq!(entered.header("cache-control"), "no-store");
    let key = entered.json();
    let scopes = json!(["link:links.write", "link:links.read"]);
    assert_eq!(
        (&key["scopes"], &key["return_url"]),
        (&scopes, &json!(way_back))
    );
    let lifetime = "SELECT (expires_at - created_at)::text FROM event_store.api_keys";
    assert_eq!(admin.stored(lifetime).await, "08:00:00");
    let expiry =
        "SELECT to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')
                  FROM event_store.api_keys";
    assert_eq!(key["expires_at"], admin.stored(expiry).await);

    let issued = admin.app.payload("ApiKeyIssued").await;
    assert_eq!(issued["name"], "console session");
    assert_eq!(
        (&issued["key_id"], &issued["scopes"]),
        (&key["key_id"], &scopes)
    );
    let metadata = "SELECT metadata::text FROM event_store.events WHERE type = 'ApiKeyIssued'";
    let metadata: Value = serde_json::from_str(&admin.stored(metadata).await).unwrap();
    assert_eq!(metadata["actor"], admin.key_id.to_string());
    assert_eq!(metadata["request_id"], entered.header("x-request-id"));

    assert_problem(&enter(&admin, &code).await, 400, "console_code_invalid");
    assert_eq!(admin.app.count("ApiKeyIssued").await, 1);
    assert_eq!(admin.stored(SESSIONS).await, "0");
}

#[tokio::test]
async fn key_of_the_console_has_the_scopes_of_its_session() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    admin.grant(&account, 5).await;
    let writes = open(&admin, &account, "link:links.write").await;
    let created = create_in_console(&admin, &writes).await;
    assert_eq!(created.status, 201, "{created:?}");
    let reads = open(&admin, &account, "link:links.read").await;
    let refused = create_in_console(&admin, &reads).await;
    assert_problem(&refused, 403, "insufficient_scope");
}

#[tokio::test]
async fn owner_of_a_suspended_account_enters_the_console() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let suspend = format!("{account}/suspend");
    admin
        .done("POST", &suspend, &json!({ "reason": "x" }))
        .await;
    let code = open(&admin, &account, "link:links.write").await;
    let refused = create_in_console(&admin, &code).await;
    assert_problem(&refused, 403, "account_suspended");
}

#[tokio::test]
async fn repeated_request_opens_another_session() {
    let admin = AdminApp::start().await;
    let sessions = sessions_of(&admin.account().await);
    let body = json!({ "scopes": ["link:links.read"] });
    let mut codes = Vec::new();
    for _ in 0..2 {
        let opened = admin.post(&sessions, "one", &body).await;
        assert_eq!(opened.status, 201, "{opened:?}");
        codes.push(code_of(&opened.json()));
    }
    let mut without_key = request(&admin.key, "POST", &sessions, &body);
    without_key.headers_mut().remove("idempotency-key");
    let opened = admin.send(without_key).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    codes.push(code_of(&opened.json()));
    for code in &codes {
        let entered = enter(&admin, code).await;
        assert_eq!(entered.status, 200, "{entered:?}");
        assert!(entered.json().get("return_url").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_exchanges_at_once_succeeds() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let code = open(&admin, &account, "link:links.read").await;
    let answers = join_all((0..4).map(|_| enter(&admin, &code))).await;
    let (entered, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(entered.len(), 1, "{answers:?}");
    for answer in refused {
        assert_problem(answer, 400, "console_code_invalid");
    }
    assert_eq!(admin.app.count("ApiKeyIssued").await, 1);
}

#[tokio::test]
async fn session_that_two_have_found_is_entered_once() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let code = open(&admin, &account, "link:links.read").await;
    let code = ConsoleCode::parse(&code).unwrap();
    let pool = admin.app.database.pool();
    let session = console_session::find(pool, &code).await.unwrap();
    let author = Author::AdminKey(admin.key_id);
    let request = AdminRequest::new(pool, &SystemClock, &author);
    let entered = console_session::enter(&request, &code, session.clone()).await;
    record::secret(record::Secret::ApiKey, entered.unwrap().api_key.reveal());
    let again = console_session::enter(&request, &code, session).await;
    let is_refused = matches!(
        again,
        Err(AdminError::Refused(AdminRefusal::ConsoleCodeInvalid))
    );
    assert!(is_refused, "{again:?}");
    assert_eq!(admin.app.count("ApiKeyIssued").await, 1);
}

#[tokio::test]
async fn code_of_a_revoked_admin_key_opens_nothing() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    for end in [
        "UPDATE event_store.admin_keys SET revoked_at = now(), revoked_by = 'kim'",
        "UPDATE event_store.admin_keys SET revoked_at = NULL, revoked_by = NULL, expires_at = now()",
    ] {
        execute(&admin, VALID).await;
        let code = open(&admin, &account, "link:links.read").await;
        execute(&admin, end).await;
        assert_problem(&enter(&admin, &code).await, 400, "console_code_invalid");
        execute(&admin, VALID).await;
        assert_eq!(enter(&admin, &code).await.status, 200);
    }
}

#[tokio::test]
async fn code_expires_after_a_minute() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let code = open(&admin, &account, "link:links.read").await;
    let rest =
        "SELECT (expires_at - now() BETWEEN interval '30 seconds' AND interval '60 seconds')::text
                FROM event_store.console_sessions";
    assert_eq!(admin.stored(rest).await, "true");
    let a_minute_later =
        "UPDATE event_store.console_sessions SET expires_at = expires_at - interval '60 seconds'";
    execute(&admin, a_minute_later).await;
    assert_problem(&enter(&admin, &code).await, 400, "console_code_invalid");
    assert_eq!(admin.app.count("ApiKeyIssued").await, 0);
}

#[tokio::test]
async fn opening_deletes_a_hundred_expired_sessions() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let expired = "INSERT INTO event_store.console_sessions
            (code_sha256, account_id, scopes, opened_by, expires_at)
        SELECT sha256(n::text::bytea), account_id, '{}', gen_random_uuid(), now() - interval '1 second'
        FROM event_store.accounts, generate_series(1, 150) AS n";
    execute(&admin, expired).await;
    for left in ["51", "2", "3"] {
        open(&admin, &account, "link:links.read").await;
        assert_eq!(admin.stored(SESSIONS).await, left);
    }
}

#[tokio::test]
async fn code_and_key_are_stored_nowhere_in_clear() {
    let admin = AdminApp::start().await;
    let account = admin.account().await;
    let code = open(&admin, &account, "link:links.read").await;
    let binary = "SELECT encode(decode(translate($1, '-_', '+/') || '=', 'base64'), 'hex')";
    let binary: String = sqlx::query_scalar(binary)
        .bind(&code)
        .fetch_one(admin.app.database.pool())
        .await
        .unwrap();
    let stored = "SELECT concat(
        (SELECT string_agg(s::text, '') FROM event_store.console_sessions AS s),
        (SELECT string_agg(k::text, '') FROM event_store.api_keys AS k),
        (SELECT string_agg(e::text, '') FROM event_store.events AS e)
    )";
    let before = admin.stored(stored).await;
    let entered = enter(&admin, &code).await.json();
    let after = admin.stored(stored).await;
    for secret in [code.as_str(), &binary, text(&entered["api_key"])] {
        assert!(!before.contains(secret) && !after.contains(secret));
    }
}

#[tokio::test]
async fn code_of_another_shape_is_as_invalid_as_an_unknown_one() {
    let admin = AdminApp::start().await;
    let unknown = "A".repeat(43);
    for code in [
        "",
        "x",
        &unknown,
        &unknown[1..],
        "llk_x",
        "caf\u{e9}",
        "\u{0}",
    ] {
        let refused = enter(&admin, code).await;
        assert_problem(&refused, 400, "console_code_invalid");
    }
}

#[tokio::test]
async fn exchange_is_checked_as_other_requests() {
    let admin = AdminApp::start().await;
    let code = "A".repeat(43);
    for (body, error) in [
        (json!({}), "#/code required"),
        (json!({ "code": null }), "#/code null_not_allowed"),
        (json!({ "code": [code] }), "#/code wrong_type"),
        (
            json!({ "code": code, "scopes": [] }),
            "#/scopes unknown_field",
        ),
    ] {
        let answer = send(&admin.app.router, exchange(&body)).await;
        assert_problem(&answer, 422, "validation_failed");
        let first = answer.json()["errors"][0].clone();
        let first = format!("{} {}", text(&first["pointer"]), text(&first["code"]));
        assert_eq!(first, error);
    }
    let valid = || exchange(&json!({ "code": code }));
    let long = json!({ "code": code.repeat(100) });
    let changed = |change: fn(&mut Request<Body>)| {
        let mut request = valid();
        change(&mut request);
        request
    };
    for (request, status, problem) in [
        (
            changed(|it| *it.body_mut() = Body::from("[]")),
            400,
            "body_not_object",
        ),
        (
            changed(|it| *it.body_mut() = Body::from("{")),
            400,
            "malformed_json",
        ),
        (exchange(&long), 413, "content_too_large"),
        (
            changed(|it| drop(it.headers_mut().remove("content-type"))),
            415,
            "unsupported_media_type",
        ),
        (with(valid(), "accept", "text/html"), 406, "not_acceptable"),
        (
            changed(|it| *it.uri_mut() = "/console/session?x=1".parse().unwrap()),
            400,
            "invalid_parameter",
        ),
        (
            changed(|it| *it.method_mut() = "PUT".parse().unwrap()),
            405,
            "method_not_allowed",
        ),
    ] {
        assert_problem(&send(&admin.app.router, request).await, status, problem);
    }
}
