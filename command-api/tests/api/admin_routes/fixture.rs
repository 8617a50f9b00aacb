//! A service with an admin key, and requests to its admin API.

use axum::{body::Body, http::Request};
use linkledger_core::{
    api_key::{AdminKey, AdminScope, ApiKey},
    clock::{Clock as _, SystemClock, new_uuid},
    id::AdminKeyId,
};
use linkledger_event_store::admin_keys::{self, NewAdminKey};
use linkledger_testing::record;
use serde_json::{Value, json};

use crate::support::{Answer, TestApp, fresh_key, send};

/// A service, and an admin key with all scopes.
pub(super) struct AdminApp {
    pub(super) app: TestApp,
    pub(super) key: AdminKey,
    pub(super) key_id: AdminKeyId,
}

impl AdminApp {
    pub(super) async fn start() -> Self {
        Self::of(TestApp::start().await).await
    }

    pub(super) async fn of(app: TestApp) -> Self {
        let (key_id, key) = admin_key(&app, &AdminScope::ALL).await;
        Self { app, key, key_id }
    }

    /// Sends a request with the admin key; a POST with a new idempotency key.
    pub(super) async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(request(&self.key, method, path, body)).await
    }

    /// Sends a POST with an idempotency key.
    pub(super) async fn post(&self, path: &str, idempotency_key: &str, body: &Value) -> Answer {
        self.send(post(&self.key, path, idempotency_key, body))
            .await
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Answer {
        let answer = send(&self.app.admin, request).await;
        let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let secret = body["secret"].as_str();
        if let Some(secret) = secret.filter(|secret| secret.starts_with("llk_")) {
            record::secret(record::Secret::ApiKey, secret);
        }
        answer
    }

    /// Sends a request that succeeds, and returns its answer.
    pub(super) async fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.call(method, path, body).await;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}");
        answer.json()
    }

    /// Creates an account, and returns its path.
    pub(super) async fn account(&self) -> String {
        let account = self
            .done("POST", ACCOUNTS, &json!({ "name": "Acme" }))
            .await;
        format!("{ACCOUNTS}/{}", text(&account["id"]))
    }

    /// Issues an API key with all scopes for links.
    pub(super) async fn api_key(&self, account: &str) -> ApiKey {
        let body = json!({ "scopes": ["link:links.write", "link:links.read"] });
        let key = self.done("POST", &format!("{account}/keys"), &body).await;
        ApiKey::parse(text(&key["secret"])).unwrap()
    }

    /// Grants credits, and returns the entry.
    pub(super) async fn grant(&self, account: &str, amount: i64) -> Value {
        let body = json!({ "amount": amount, "reason": "invoice paid" });
        self.done("POST", &format!("{account}/grants"), &body).await
    }

    /// Returns a text of the log.
    pub(super) async fn stored(&self, query: &'static str) -> String {
        sqlx::query_scalar(query)
            .fetch_one(self.app.database.pool())
            .await
            .unwrap()
    }
}

pub(super) const ACCOUNTS: &str = "/admin/v1/accounts";

/// Issues an admin key.
pub(super) async fn admin_key(app: &TestApp, scopes: &[AdminScope]) -> (AdminKeyId, AdminKey) {
    let secret = AdminKey::generate();
    record::secret(record::Secret::ApiKey, secret.reveal());
    let now = SystemClock.now();
    let key = NewAdminKey {
        key_id: AdminKeyId::from_uuid(new_uuid(now)),
        secret: &secret,
        name: "test",
        scopes,
        created_at: now,
        created_by: "test",
        expires_at: None,
    };
    admin_keys::insert(app.database.pool(), &key).await.unwrap();
    (key.key_id, secret)
}

/// Returns a valid request; a POST has a new idempotency key, a DELETE no body.
pub(super) fn request(key: &AdminKey, method: &str, path: &str, body: &Value) -> Request<Body> {
    let content_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "10.0.0.1:8085")
        .header("authorization", format!("Bearer {}", key.reveal()));
    let request = match method {
        "DELETE" => return request.body(Body::empty()).unwrap(),
        "POST" => request.header("idempotency-key", fresh_key().to_string()),
        _ => request,
    };
    let request = request.header("content-type", content_type);
    request.body(Body::from(body.to_string())).unwrap()
}

/// Returns a POST with an idempotency key.
pub(super) fn post(
    key: &AdminKey,
    path: &str,
    idempotency_key: &str,
    body: &Value,
) -> Request<Body> {
    let mut request = request(key, "POST", path, body);
    let idempotency_key = idempotency_key.parse().unwrap();
    request
        .headers_mut()
        .insert("idempotency-key", idempotency_key);
    request
}

/// Returns the text of a member.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Checks that the answer is a problem with the code.
pub(super) fn assert_problem(answer: &Answer, status: u16, code: &str) {
    let problem = (answer.status.as_u16(), answer.problem());
    assert_eq!(problem, (status, code.to_owned()), "{answer:?}");
}

/// Checks that the second answer repeats the first one byte for byte.
pub(super) fn assert_replay(first: &Answer, again: &Answer) {
    assert_eq!(first.header("idempotent-replayed"), "");
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    for header in ["location", "consistency-token", "content-type"] {
        assert_eq!(first.header(header), again.header(header), "{header}");
    }
}
