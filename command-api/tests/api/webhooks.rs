//! Webhooks of owners: creation, changes, rotation, tests, replays, deletion. The dispatcher does not run here.

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    id::{AccountId, EventId},
};
use linkledger_testing as testing;
use linkledger_testing::record;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, TestApp, fresh_key, send};

mod order_of_checks;
mod repeats;

const WEBHOOKS: &str = "/v1/webhooks";
const UNKNOWN: &str = "/v1/webhooks/whe_01h455vb4pex5vsknk084sn02q";
const UNKNOWN_DELIVERY: &str = "dlv_01h455vb4pex5vsknk084sn02q";

/// A service, and an account with an API key.
struct Fixture {
    app: TestApp,
    account_id: AccountId,
    key: ApiKey,
}

impl Fixture {
    async fn new() -> Self {
        Self::of(TestApp::start().await).await
    }

    async fn of(app: TestApp) -> Self {
        let (account_id, key) = app.account(10).await;
        Self {
            app,
            account_id,
            key,
        }
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        send(&self.app.router, request(&self.key, method, path, body)).await
    }

    /// Sends a request with an idempotency key.
    async fn once(&self, path: &str, key: Uuid, body: &Value) -> Answer {
        self.once_to(&self.app.router, path, key, body).await
    }

    /// Sends a request with an idempotency key to one of the services.
    async fn once_to(&self, router: &Router, path: &str, key: Uuid, body: &Value) -> Answer {
        let mut request = request(&self.key, "POST", path, body);
        record::secret(record::Secret::IdempotencyKey, &key.to_string());
        let key = HeaderValue::from_str(&key.to_string()).unwrap();
        request.headers_mut().insert("idempotency-key", key);
        send(router, request).await
    }

    /// Creates a webhook, and returns its path.
    async fn webhook(&self) -> String {
        let answer = self.call("POST", WEBHOOKS, &creation()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.header("location").to_owned()
    }

    /// Returns the id of the only event of a type.
    async fn event(&self, event_type: &str) -> EventId {
        let id: Uuid =
            sqlx::query_scalar("SELECT event_id FROM event_store.events WHERE type = $1")
                .bind(event_type)
                .fetch_one(self.app.database.pool())
                .await
                .unwrap();
        EventId::from_uuid(id)
    }
}

fn creation() -> Value {
    json!({ "url": "https://shop.example.com/hooks", "types": ["link.deleted", "link.created"] })
}

/// Returns a valid request; one with a null body has none.
fn request(key: &ApiKey, method: &str, path: &str, body: &Value) -> Request<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "api.sho.rt")
        .header("authorization", format!("Bearer {}", key.reveal()));
    if body.is_null() {
        return request.body(Body::empty()).unwrap();
    }
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body.to_string())).unwrap()
}

#[track_caller]
fn assert_problem(answer: &Answer, status: u16, code: &str) {
    let problem = (answer.status.as_u16(), answer.problem());
    assert_eq!(problem, (status, code.to_owned()), "{answer:?}");
}

/// Returns pointer and code of each error.
#[track_caller]
fn errors(answer: &Answer) -> Vec<String> {
    assert_problem(answer, 422, "validation_failed");
    let errors = answer.json()["errors"].as_array().unwrap().clone();
    let text = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    let both = |error| format!("{} {}", text(error, "pointer"), text(error, "code"));
    errors.iter().map(both).collect()
}

#[tokio::test]
async fn webhook_lives_from_creation_to_deletion() {
    let fixture = Fixture::new().await;
    let created = fixture.call("POST", WEBHOOKS, &creation()).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_ne!(created.header("consistency-token"), "");
    let body = created.json();
    let path = format!("{WEBHOOKS}/{}", body["id"].as_str().unwrap());
    assert_eq!(created.header("location"), path);
    assert_eq!(body["types"], json!(["link.created", "link.deleted"]));
    assert_eq!(body["enabled"], true);
    assert_eq!(body["health"], json!({ "state": "healthy" }));
    let secret = body["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"));

    let wanted = json!({ "enabled": false, "description": "shop", "types": [] });
    let changed = fixture.call("PATCH", &path, &wanted).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let body = changed.json();
    assert_eq!(body["description"], "shop");
    assert_eq!(body["health"]["state"], "disabled");
    assert_eq!((&body["types"], body.get("secret")), (&json!([]), None));
    let again = fixture.call("PATCH", &path, &wanted).await;
    assert_eq!(
        (again.status.as_u16(), again.header("consistency-token")),
        (200, "")
    );
    assert_eq!(fixture.app.count("WebhookChanged").await, 1);

    let rotated = fixture
        .call("POST", &format!("{path}/rotate-secret"), &json!({}))
        .await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
    assert_ne!(rotated.json()["secret"], secret);

    let deleted = fixture.call("DELETE", &path, &Value::Null).await;
    assert_eq!((deleted.status.as_u16(), deleted.body.len()), (204, 0));
    let gone = fixture.call("DELETE", &path, &Value::Null).await;
    assert_problem(&gone, 404, "webhook_not_found");
    let payload = fixture
        .app
        .payload("WebhookSecretRotated")
        .await
        .to_string();
    assert!(!payload.contains("whsec_"), "{payload}");
}

#[tokio::test]
async fn creation_and_rotation_replay_the_same_bytes() {
    let fixture = Fixture::new().await;
    let (first_key, rotation_key) = (fresh_key(), fresh_key());
    let created = fixture.once(WEBHOOKS, first_key, &creation()).await;
    assert_eq!(created.status, 201, "{created:?}");
    let path = created.header("location").to_owned();
    let rotate = format!("{path}/rotate-secret");
    let overlap = json!({ "overlap_hours": 1 });
    let rotated = fixture.once(&rotate, rotation_key, &overlap).await;
    let change = json!({ "url": "https://other.example.com/" });
    assert_eq!(fixture.call("PATCH", &path, &change).await.status, 200);

    let again = fixture.once(WEBHOOKS, first_key, &creation()).await;
    let rotated_again = fixture.once(&rotate, rotation_key, &overlap).await;
    for (first, again) in [(&created, &again), (&rotated, &rotated_again)] {
        assert_eq!(first.header("idempotent-replayed"), "");
        assert_eq!(again.header("idempotent-replayed"), "true");
        assert_eq!((first.status, &first.body), (again.status, &again.body));
        assert!(first.json()["secret"].is_string());
    }
    assert_eq!(fixture.app.count("WebhookCreated").await, 1);
    assert_eq!(fixture.app.count("WebhookSecretRotated").await, 1);

    for (path, key, body) in [
        (
            WEBHOOKS,
            first_key,
            json!({ "url": "https://other.example.com/" }),
        ),
        (WEBHOOKS, first_key, json!({ "url": 7 })),
        (&rotate, rotation_key, json!({ "overlap_hours": 2 })),
        (&rotate, rotation_key, json!({ "overlap_hours": -1 })),
    ] {
        let reused = fixture.once(path, key, &body).await;
        assert_problem(&reused, 422, "idempotency_key_reused");
    }
}

#[tokio::test]
async fn eleventh_webhook_is_refused() {
    let fixture = Fixture::new().await;
    let mut paths = Vec::new();
    for _ in 0..10 {
        paths.push(fixture.webhook().await);
    }
    let refused = fixture.call("POST", WEBHOOKS, &creation()).await;
    assert_problem(&refused, 409, "webhook_limit_reached");
    let deleted = fixture.call("DELETE", &paths[0], &Value::Null).await;
    assert_eq!(deleted.status, 204);
    fixture.webhook().await;
}

#[tokio::test]
async fn webhook_of_another_account_is_answered_as_unknown() {
    let fixture = Fixture::new().await;
    let path = fixture.webhook().await;
    let tested = fixture
        .call("POST", &format!("{path}/test"), &Value::Null)
        .await;
    let delivery = tested.json()["id"].as_str().unwrap().to_owned();
    let (_, stranger) = fixture.app.account(0).await;
    let from = json!({ "from": "2026-11-20T09:00:00Z" });
    for (method, operation, body) in [
        ("PATCH", String::new(), json!({ "enabled": false })),
        ("DELETE", String::new(), Value::Null),
        ("POST", "/rotate-secret".to_owned(), json!({})),
        ("POST", "/test".to_owned(), Value::Null),
        ("POST", "/replay".to_owned(), from),
        ("POST", format!("/deliveries/{delivery}/retry"), Value::Null),
    ] {
        let mut details = Vec::new();
        for webhook in [path.as_str(), UNKNOWN, "/v1/webhooks/whe_1"] {
            let path = format!("{webhook}{operation}");
            let asked = request(&stranger, method, &path, &body);
            let answer = send(&fixture.app.router, asked).await;
            assert_problem(&answer, 404, "webhook_not_found");
            details.push(answer.json()["detail"].clone());
        }
        details.dedup();
        assert_eq!(details.len(), 1, "{method} {operation}");
    }
    for event_type in ["WebhookChanged", "WebhookDeleted", "WebhookSecretRotated"] {
        assert_eq!(fixture.app.count(event_type).await, 0, "{event_type}");
    }
}

#[tokio::test]
async fn key_needs_scope_and_account_must_be_active() {
    let fixture = Fixture::new().await;
    let (app, account_id) = (&fixture.app, fixture.account_id);
    let others: Vec<Scope> = Scope::ALL
        .into_iter()
        .filter(|scope| *scope != Scope::WebhooksWrite)
        .collect();
    let reader = testing::api_key(app.database.pool(), account_id, &others).await;
    let refused = send(&app.router, request(&reader, "POST", WEBHOOKS, &creation())).await;
    assert_problem(&refused, 403, "insufficient_scope");
    assert_eq!(
        refused.json()["required_scopes"],
        json!(["link:webhooks.write"])
    );
    sqlx::query("UPDATE event_store.accounts SET status = 'suspended'")
        .execute(app.database.pool())
        .await
        .unwrap();
    let suspended = fixture.call("POST", WEBHOOKS, &creation()).await;
    assert_problem(&suspended, 403, "account_suspended");
}

#[tokio::test]
async fn hostile_values_are_refused_with_every_error() {
    let fixture = Fixture::new().await;
    let path = fixture.webhook().await;
    let creation = |body: Value| ("POST", WEBHOOKS.to_owned(), body);
    let to = |operation: &str, body: Value| ("POST", format!("{path}{operation}"), body);
    for ((method, path, body), expected) in [
        (
            creation(
                json!({ "types": ["x", 1], "in_order": "yes", "description": " x", "secret": "x" }),
            ),
            &[
                "#/description text_invalid",
                "#/in_order wrong_type",
                "#/secret unknown_field",
                "#/types/0 message_type_invalid",
                "#/types/1 wrong_type",
                "#/url required",
            ][..],
        ),
        (
            creation(json!({ "url": "https://a.example.com/", "types": ["account.created"] })),
            &["#/types/0 message_type_invalid"],
        ),
        (
            creation(json!({ "url": "http://a.example.com/" })),
            &["#/url url_scheme_not_allowed"],
        ),
        (
            creation(json!({ "url": "https://10.0.0.1/" })),
            &["#/url url_ip_not_allowed"],
        ),
        (
            creation(json!({ "url": "https://u:p@a.example.com/" })),
            &["#/url url_userinfo_not_allowed"],
        ),
        (
            (
                "PATCH",
                path.clone(),
                json!({ "id": "x", "health": {}, "enabled": null, "types": null }),
            ),
            &[
                "#/enabled null_not_allowed",
                "#/health field_not_mutable",
                "#/id field_not_mutable",
                "#/types null_not_allowed",
            ],
        ),
        (
            to("/rotate-secret", json!({ "overlap_hours": 169 })),
            &["#/overlap_hours overlap_hours_invalid"],
        ),
        (to("/replay", json!({})), &["#/from replay_start_invalid"]),
        (
            to("/replay", json!({ "from": "now" })),
            &["#/from instant_invalid"],
        ),
    ] {
        let answer = fixture.call(method, &path, &body).await;
        assert_eq!(errors(&answer), expected, "{method} {path}: {body}");
    }
    let unknown = fixture.call("POST", WEBHOOKS, &json!({ "uri": "x" })).await;
    let detail = unknown.json()["detail"].to_string();
    assert!(
        detail.contains("url, types, description, in_order"),
        "{detail}"
    );
    assert_eq!(fixture.app.count("WebhookCreated").await, 1);
}

#[tokio::test]
async fn replay_starts_once_and_names_known_events() {
    let fixture = Fixture::new().await;
    let replay = format!("{}/replay", fixture.webhook().await);
    fixture.app.link(&fixture.key).await;
    let future = json!({ "from": "2099-01-01T00:00:00Z" });
    let nothing = fixture.call("POST", &replay, &future).await;
    assert_eq!(
        (nothing.status.as_u16(), &nothing.json()["is_replaying"]),
        (202, &json!(false))
    );

    let (_, stranger) = fixture.app.account(0).await;
    let foreign = send(
        &fixture.app.router,
        request(&stranger, "POST", WEBHOOKS, &creation()),
    )
    .await;
    let foreign = foreign.header("location").to_owned();
    let created = fixture.event("LinkCreated").await;
    let after = json!({ "after": created });
    let foreign = request(&stranger, "POST", &format!("{foreign}/replay"), &after);
    let foreign = send(&fixture.app.router, foreign).await;
    assert_eq!(errors(&foreign), ["#/after event_unknown"]);
    let unknown = json!({ "after": "evt_01h455vb4pex5vsknk084sn02q" });
    let unknown = fixture.call("POST", &replay, &unknown).await;
    assert_eq!(errors(&unknown), ["#/after event_unknown"]);

    // The charge is after the link.
    let started = fixture.call("POST", &replay, &after).await;
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(started.json()["is_replaying"], true);
    let past = json!({ "from": "2026-01-01T00:00:00Z", "to": "2098-01-01T00:00:00Z" });
    let second = fixture.call("POST", &replay, &past).await;
    assert_problem(&second, 409, "replay_in_progress");
}

#[tokio::test]
async fn replay_of_a_disabled_webhook_is_refused() {
    let fixture = Fixture::new().await;
    let path = fixture.webhook().await;
    fixture.app.link(&fixture.key).await;
    let replay = format!("{path}/replay");
    let from = json!({ "from": "2026-01-01T00:00:00Z" });
    for (enabled, status) in [(false, 409), (true, 202)] {
        let wanted = json!({ "enabled": enabled });
        fixture.call("PATCH", &path, &wanted).await;
        let answer = fixture.call("POST", &replay, &from).await;
        if status == 409 {
            assert_problem(&answer, status, "webhook_disabled");
        }
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[tokio::test]
async fn test_is_a_delivery_that_can_be_retried() {
    let fixture = Fixture::new().await;
    let path = fixture.webhook().await;
    let tested = fixture
        .call("POST", &format!("{path}/test"), &Value::Null)
        .await;
    assert_eq!(tested.status, 202, "{tested:?}");
    let delivery = tested.json();
    assert_eq!(delivery["type"], "webhook.test");
    assert_eq!(
        (&delivery["state"], &delivery["attempts"]),
        (&json!("waiting"), &json!(0))
    );
    let id = delivery["id"].as_str().unwrap();
    let retry = |id: &str| format!("{path}/deliveries/{id}/retry");
    let retried = fixture.call("POST", &retry(id), &Value::Null).await;
    assert_eq!(retried.status, 202, "{retried:?}");
    assert_eq!(retried.json()["id"], id);
    for id in [UNKNOWN_DELIVERY, "dlv_1", "x"] {
        let answer = fixture.call("POST", &retry(id), &Value::Null).await;
        assert_problem(&answer, 404, "delivery_not_found");
    }
}

#[tokio::test]
async fn full_webhook_takes_no_test() {
    let fixture = Fixture::new().await;
    let path = fixture.webhook().await;
    sqlx::query(
        "INSERT INTO event_store.webhook_deliveries
             (delivery_id, webhook_id, event_id, message_type, state, attempts, next_attempt_at, created_at)
         SELECT gen_random_uuid(), webhook_id, gen_random_uuid(), 'webhook.test', 'waiting', 0, now(), now()
         FROM event_store.webhooks CROSS JOIN generate_series(1, 1000)",
    )
    .execute(fixture.app.database.pool())
    .await
    .unwrap();
    let refused = fixture
        .call("POST", &format!("{path}/test"), &Value::Null)
        .await;
    assert_problem(&refused, 503, "overloaded");
}

#[tokio::test]
async fn writes_without_master_keys_are_refused() {
    let fixture = Fixture::of(TestApp::start_without_webhooks().await).await;
    for (method, path, body) in [
        ("POST", WEBHOOKS.to_owned(), creation()),
        ("PATCH", UNKNOWN.to_owned(), json!({})),
        ("DELETE", UNKNOWN.to_owned(), Value::Null),
        ("POST", format!("{UNKNOWN}/rotate-secret"), json!({})),
        ("POST", format!("{UNKNOWN}/test"), Value::Null),
        ("POST", format!("{UNKNOWN}/replay"), json!({})),
        (
            "POST",
            format!("{UNKNOWN}/deliveries/{UNKNOWN_DELIVERY}/retry"),
            Value::Null,
        ),
    ] {
        let answer = fixture.call(method, &path, &body).await;
        assert_problem(&answer, 503, "webhooks_off");
    }
}
