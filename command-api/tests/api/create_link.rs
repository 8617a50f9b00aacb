use axum::{body::Body, http::Request};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    id::KeyId,
    link::members::SLUG,
};
use linkledger_http::link_request::LinkCreate;
use linkledger_testing as testing;
use serde_json::{Value, json};

use crate::{
    create_links::batch,
    support::{TestApp, create, destination, fresh_key, link, send},
};

#[tokio::test]
async fn create_stores_and_charges_link() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;

    let body = json!({ "destination_url": "HTTPS://Example.com", "slug": "Spring-26" });
    let answer = send(&app.router, create(&key, fresh_key(), &body)).await;

    assert_eq!(answer.status, 201, "{answer:?}");
    let created = answer.json();
    let id = created["id"].as_str().unwrap();
    assert!(id.starts_with("lnk_") && id.len() == 30, "{id}");
    assert_eq!(created["short_url"], "https://sho.rt/Spring-26");
    assert_eq!(created["destination_url"], "https://example.com/");
    assert_eq!(created["credits_charged"], 1);
    assert_eq!(created["credits_balance"], 9);
    assert_eq!(created.as_object().unwrap().len(), 6);
    assert_eq!(answer.header("location"), format!("/v1/links/{id}"));
    assert_eq!(answer.header("etag"), "\"1\"");
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(!answer.header("consistency-token").is_empty());
    assert!(answer.header("x-request-id").starts_with("req_"));
    assert!(!answer.headers.contains_key("idempotent-replayed"));
    assert_eq!(app.balance(account_id).await, 9);
    assert_eq!(app.count("LinkCreated").await, 1);
    assert_eq!(app.count("CreditsCharged").await, 1);
}

#[tokio::test]
async fn charge_names_the_key_of_its_request() {
    let app = TestApp::start().await;
    let (account_id, first) = app.account(10).await;
    let second = testing::api_key(app.database.pool(), account_id, &Scope::ALL).await;
    for key in [first, second] {
        let key_id = id_of(&app, &key).await;
        let alone = create(&key, fresh_key(), &destination());
        let batched = batch(&key, "partial", &[(fresh_key(), destination())]);
        for request in [alone, batched] {
            let answer = send(&app.router, request).await;
            assert!(answer.status.is_success(), "{answer:?}");
            let charged = app.payload("CreditsCharged").await;
            assert_eq!(charged["key_id"], key_id.to_string());
        }
    }
}

async fn id_of(app: &TestApp, key: &ApiKey) -> KeyId {
    let key_id = sqlx::query_scalar("SELECT key_id FROM event_store.api_keys WHERE sha256 = $1")
        .bind(key.sha256().to_vec())
        .fetch_one(app.database.pool());
    KeyId::from_uuid(key_id.await.unwrap())
}

#[tokio::test]
async fn each_member_of_create_is_stored_and_returned() {
    let app = TestApp::start().await;
    let (_, key) = app.account(10).await;
    let body = LinkCreate::example();
    let answer = send(&app.router, create(&key, fresh_key(), &body)).await;
    let (created, stored) = (answer.json(), app.payload("LinkCreated").await);
    for (name, value) in body.as_object().unwrap() {
        assert_eq!(stored[name], *value, "`{name}` of LinkCreated");
        // Answers show the slug as the last part of the short address.
        if name != SLUG {
            assert_eq!(created[name], *value, "`{name}` of the answer");
        }
    }
}

#[tokio::test]
async fn create_without_slug_generates_slug() {
    let app = TestApp::start().await;
    let (_, key) = app.account(10).await;
    let answer = send(&app.router, create(&key, fresh_key(), &destination())).await;
    let short_url = answer.json()["short_url"].as_str().unwrap().to_owned();
    assert_eq!(short_url.len(), "https://sho.rt/".len() + 8, "{short_url}");
}

#[tokio::test]
async fn link_id_contains_creation_time() {
    let app = TestApp::start().await;
    let (_, key) = app.account(10).await;
    let created = send(&app.router, create(&key, fresh_key(), &destination()))
        .await
        .json();
    let row: (bool, bool) = sqlx::query_as(
        "SELECT bool_and(recorded_at = date_trunc('milliseconds', recorded_at)),
                bool_and(to_timestamp(('x' || left(replace(event_id::text, '-', ''), 12))
                    ::bit(48)::bigint / 1000.0) = recorded_at)
         FROM event_store.events",
    )
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    assert_eq!(row, (true, true));
    let created_at = created["created_at"].as_str().unwrap();
    assert!(
        created_at.ends_with('Z') && created_at.len() == 24,
        "{created_at}"
    );
}

#[tokio::test]
async fn taken_slug_conflicts_in_any_case() {
    let app = TestApp::start().await;
    let (_, key) = app.account(10).await;
    let (other_id, other) = app.account(10).await;
    assert_eq!(
        send(&app.router, create(&key, fresh_key(), &link("spring")))
            .await
            .status,
        201
    );
    for (key, slug) in [(&key, "spring"), (&other, "SPRING")] {
        let answer = send(&app.router, create(key, fresh_key(), &link(slug))).await;
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (409, "slug_taken")
        );
    }
    assert_eq!(app.balance(other_id).await, 10);
}

#[tokio::test]
async fn insufficient_credits_names_balance_and_price() {
    let app = TestApp::start().await;
    let (_, key) = app.account(0).await;
    let answer = send(&app.router, create(&key, fresh_key(), &link("spring"))).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (402, "insufficient_credits")
    );
    assert_eq!(
        (&answer.json()["balance"], &answer.json()["required"]),
        (&json!(0), &json!(1))
    );
    // The reservation of the slug was released.
    let (_, rich) = app.account(1).await;
    assert_eq!(
        send(&app.router, create(&rich, fresh_key(), &link("spring")))
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn invalid_create_lists_all_errors_uncharged() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    let body = json!({ "destination_url": "http://127.0.0.1", "slug": "a/b", "clicks": 1 });
    let answer = send(&app.router, create(&key, fresh_key(), &body)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (422, "validation_failed")
    );
    let errors: Vec<(Value, Value)> = answer.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["pointer"].clone(), error["code"].clone()))
        .collect();
    let expected = [
        ("#/clicks", "unknown_field"),
        ("#/destination_url", "url_ip_not_allowed"),
        ("#/slug", "slug_invalid_character"),
    ];
    assert_eq!(
        errors,
        expected.map(|(pointer, code)| (pointer.into(), code.into()))
    );
    assert_eq!(app.balance(account_id).await, 10);
}

#[tokio::test]
async fn own_hosts_are_rejected_as_destination() {
    let app = TestApp::start().await;
    let (_, key) = app.account(10).await;
    for own in ["https://sho.rt/abc", "https://api.sho.rt/v1/links"] {
        let body = json!({ "destination_url": own });
        let answer = send(&app.router, create(&key, fresh_key(), &body)).await;
        assert_eq!(
            answer.json()["errors"][0]["code"],
            "url_self_reference",
            "{own}"
        );
    }
}

#[tokio::test]
async fn create_requires_valid_key_with_write_scope() {
    let app = TestApp::start().await;
    let pool = app.database.pool();
    let (account_id, revoked) = app.account(10).await;
    let expired = testing::api_key(pool, account_id, &Scope::ALL).await;
    let reader = testing::api_key(pool, account_id, &[Scope::LinksRead]).await;
    let update = |column: &str, key: &linkledger_core::api_key::ApiKey| {
        sqlx::query(sqlx::AssertSqlSafe(format!(
            "UPDATE event_store.api_keys SET {column} = now() - interval '1 second'
             WHERE sha256 = $1"
        )))
        .bind(key.sha256().to_vec())
    };
    update("revoked_at", &revoked).execute(pool).await.unwrap();
    update("expires_at", &expired).execute(pool).await.unwrap();
    let unknown = linkledger_core::api_key::ApiKey::generate();
    for (key, status, code) in [
        (&revoked, 401, "api_key_revoked"),
        (&expired, 401, "api_key_expired"),
        (&unknown, 401, "api_key_invalid"),
        (&reader, 403, "insufficient_scope"),
    ] {
        let answer = send(&app.router, create(key, fresh_key(), &destination())).await;
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (status, code)
        );
        assert!(
            answer
                .header("www-authenticate")
                .starts_with("Bearer realm=\"linkledger\"")
        );
    }
    let answer = send(&app.router, create(&reader, fresh_key(), &destination())).await;
    assert_eq!(
        answer.json()["required_scopes"],
        json!(["link:links.write"])
    );
}

#[tokio::test]
async fn suspended_account_cannot_create() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    sqlx::query("UPDATE event_store.accounts SET status = 'suspended' WHERE account_id = $1")
        .bind(account_id.uuid())
        .execute(app.database.pool())
        .await
        .unwrap();
    let answer = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem().as_str()),
        (403, "account_suspended")
    );
}

#[tokio::test]
async fn unknown_paths_and_methods_return_problems() {
    let app = TestApp::start().await;
    for (method, path, status, allow) in [
        ("POST", "/v1/links/", 404, ""),
        ("POST", "/nothing", 404, ""),
        // Routes of query-api.
        ("GET", "/v1/links", 404, ""),
        ("PATCH", "/docs", 405, "GET, HEAD, OPTIONS"),
        ("PUT", "/v1/links", 405, "GET, HEAD, POST, OPTIONS"),
        ("DELETE", "/v1/links", 405, "GET, HEAD, POST, OPTIONS"),
        (
            "POST",
            "/v1/links/lnk_1",
            405,
            "GET, HEAD, PATCH, DELETE, OPTIONS",
        ),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "api.sho.rt");
        let answer = send(&app.router, request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
        answer.problem();
    }
    let options = Request::options("/v1/links").header("host", "api.sho.rt");
    let answer = send(&app.router, options.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("allow"), "GET, HEAD, POST, OPTIONS");
}

#[tokio::test]
async fn rate_limit_is_announced_and_enforced() {
    let database = testing::TestDatabase::create().await;
    let url = database.url().to_owned();
    let app = TestApp::start_on(database, &url, 1).await;
    let (account_id, key) = app.account(10).await;
    let mut last = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(last.status, 201);
    assert_eq!(last.header("ratelimit-policy"), "\"write\";q=2;w=2");
    // A burst of two, and one more request for each elapsed second.
    for _ in 0..50 {
        last = send(&app.router, create(&key, fresh_key(), &destination())).await;
        if last.status == 429 {
            break;
        }
    }
    assert_eq!(
        (last.status.as_u16(), last.problem().as_str()),
        (429, "rate_limited")
    );
    assert_eq!(last.header("retry-after"), "1");
    assert_eq!(
        app.balance(account_id).await + app.count("LinkCreated").await,
        10
    );
}
