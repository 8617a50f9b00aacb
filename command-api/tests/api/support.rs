//! Runs a command-api for one test.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use linkledger_command_api::config::{CommandApiConfig, DatabaseConfig};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::{Clock, SystemClock, new_uuid},
    id::AccountId,
    link::{DestinationHosts, DestinationSchemes},
};
use linkledger_http::authentication::KEYS_CACHED_MAX;
use linkledger_service::{
    internal_listener::AdminAllowedHosts, kafka_config::KafkaConfig, lifecycle::Tasks,
    webhook_config::WebhookConfig,
};
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase, record};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use uuid::Uuid;

/// Master key of the secrets of webhooks.
const WEBHOOK_KEYS_FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/api/webhooks/master_keys"
);

/// File without the master key of [`WEBHOOK_KEYS_FILE`].
const OTHER_WEBHOOK_KEYS_FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/api/webhooks/other_master_keys"
);

/// A running service on a separate database.
pub(crate) struct TestApp {
    pub(crate) database: TestDatabase,
    pub(crate) broker: TestBroker,
    pub(crate) router: Router,
    /// Routes of the admin API.
    pub(crate) admin: Router,
    _tasks: Tasks,
}

/// Answer with its whole body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        let database = TestDatabase::create().await;
        let url = database.url().to_owned();
        Self::start_on(database, &url, 0).await
    }

    /// Starts a service that reaches the database under the given address.
    pub(crate) async fn start_on(database: TestDatabase, url: &str, rate_limit: u32) -> Self {
        let broker = TestBroker::start().await;
        let config = config(url, broker.config(), rate_limit);
        Self::start_by(database, broker, config).await
    }

    /// Starts a service without master keys of webhooks.
    pub(crate) async fn start_without_webhooks() -> Self {
        let (database, broker) = (TestDatabase::create().await, TestBroker::start().await);
        let config = CommandApiConfig {
            webhooks: WebhookConfig::default(),
            ..config(database.url(), broker.config(), 0)
        };
        Self::start_by(database, broker, config).await
    }

    async fn start_by(
        database: TestDatabase,
        broker: TestBroker,
        config: CommandApiConfig,
    ) -> Self {
        let mut tasks = Tasks::new(CancellationToken::new());
        let service = linkledger_command_api::start(config, Arc::new(SystemClock), &mut tasks);
        let service = service.await.expect("the service starts");
        Self {
            database,
            broker,
            router: service.router,
            admin: service.admin,
            _tasks: tasks,
        }
    }

    /// Starts another service on the same database, like a second process.
    pub(crate) async fn another(&self) -> (Router, Tasks) {
        start_service(&self.database, self.broker.config()).await
    }

    /// Starts another service on the same database, whose file of master keys is another one.
    pub(crate) async fn with_other_master_keys(&self) -> (Router, Tasks) {
        let webhooks = WebhookConfig {
            keys_file: Some(OTHER_WEBHOOK_KEYS_FILE.into()),
            ..WebhookConfig::default()
        };
        start_configured(CommandApiConfig {
            webhooks,
            ..config(self.database.url(), self.broker.config(), 0)
        })
        .await
    }

    pub(crate) async fn account(&self, balance: i64) -> (AccountId, ApiKey) {
        let account_id = testing::account(self.database.pool(), balance).await;
        let key = testing::api_key(self.database.pool(), account_id, &Scope::ALL).await;
        (account_id, key)
    }

    /// Creates a link of the account and returns its id.
    pub(crate) async fn link(&self, key: &ApiKey) -> String {
        let answer = send(&self.router, create(key, fresh_key(), &destination())).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn balance(&self, account_id: AccountId) -> i64 {
        sqlx::query_scalar("SELECT balance FROM event_store.accounts WHERE account_id = $1")
            .bind(account_id.uuid())
            .fetch_one(self.database.pool())
            .await
            .expect("the account is there")
    }

    pub(crate) async fn count(&self, event_type: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM event_store.events WHERE type = $1")
            .bind(event_type)
            .fetch_one(self.database.pool())
            .await
            .expect("events are counted")
    }

    /// Returns the payload of the latest event of the type.
    pub(crate) async fn payload(&self, event_type: &str) -> Value {
        let payload: String = sqlx::query_scalar(
            "SELECT payload::text FROM event_store.events WHERE type = $1 ORDER BY position DESC",
        )
        .bind(event_type)
        .fetch_one(self.database.pool())
        .await
        .expect("the event exists");
        serde_json::from_str(&payload).expect("payloads are JSON")
    }
}

fn config(url: &str, kafka: KafkaConfig, rate_limit: u32) -> CommandApiConfig {
    CommandApiConfig {
        database: DatabaseConfig {
            database_url: url.to_owned().into(),
            log_database_url: None,
        },
        relay_database_url: None,
        allow_unsafe_postgres: true,
        kafka,
        kafka_compression: "lz4".to_owned(),
        relay_batch_interval_ms: 5,
        base_url: "https://api.sho.rt".parse().expect("an address"),
        short_base_url: "https://sho.rt".parse().expect("an address"),
        link_price: 1,
        destination_schemes: DestinationSchemes::default(),
        destination_hosts: DestinationHosts::default(),
        rate_limit,
        allowed_hosts: Vec::new(),
        cors_allowed_origins: Vec::new(),
        writer_threads: 2,
        instance_id: None,
        api_keys_cached_max: KEYS_CACHED_MAX,
        admin_allowed_hosts: AdminAllowedHosts::default(),
        webhooks: WebhookConfig {
            keys_file: Some(WEBHOOK_KEYS_FILE.into()),
            ..WebhookConfig::default()
        },
    }
}

/// Starts a service on the database that relays to the given Kafka.
pub(crate) async fn start_service(database: &TestDatabase, kafka: KafkaConfig) -> (Router, Tasks) {
    start_configured(config(database.url(), kafka, 0)).await
}

/// Starts such a service whose process has this clock.
pub(crate) async fn start_by_clock(
    database: &TestDatabase,
    kafka: KafkaConfig,
    clock: Arc<dyn Clock>,
) -> (Router, Tasks) {
    start_configured_by(config(database.url(), kafka, 0), clock).await
}

async fn start_configured(config: CommandApiConfig) -> (Router, Tasks) {
    start_configured_by(config, Arc::new(SystemClock)).await
}

async fn start_configured_by(config: CommandApiConfig, clock: Arc<dyn Clock>) -> (Router, Tasks) {
    let mut tasks = Tasks::new(CancellationToken::new());
    let service = linkledger_command_api::start(config, clock, &mut tasks);
    (service.await.expect("the service starts").router, tasks)
}

/// Returns a valid create. Tests change the part under test.
pub(crate) fn create(key: &ApiKey, idempotency_key: Uuid, body: &Value) -> Request<Body> {
    record::create(&idempotency_key.to_string(), body);
    Request::post("/v1/links")
        .header("host", "api.sho.rt")
        .header("authorization", format!("Bearer {}", key.reveal()))
        .header("content-type", "application/json")
        .header("idempotency-key", idempotency_key.to_string())
        .body(Body::from(body.to_string()))
        .expect("a valid request")
}

/// Returns a valid change of a link.
pub(crate) fn change(key: &ApiKey, link_id: &str, body: &Value) -> Request<Body> {
    Request::patch(format!("/v1/links/{link_id}"))
        .header("host", "api.sho.rt")
        .header("authorization", format!("Bearer {}", key.reveal()))
        .header("content-type", "application/merge-patch+json")
        .body(Body::from(body.to_string()))
        .expect("a valid request")
}

/// Returns a valid deletion.
pub(crate) fn delete(key: &ApiKey, link_id: &str) -> Request<Body> {
    Request::delete(format!("/v1/links/{link_id}"))
        .header("host", "api.sho.rt")
        .header("authorization", format!("Bearer {}", key.reveal()))
        .body(Body::empty())
        .expect("a valid request")
}

/// Adds a header to the request.
pub(crate) fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    let value = value.parse().expect("a header's value");
    request.headers_mut().append(name, value);
    request
}

pub(crate) fn link(slug: &str) -> Value {
    json!({ "destination_url": "https://example.com/", "slug": slug })
}

pub(crate) fn destination() -> Value {
    json!({ "destination_url": "https://example.com/" })
}

pub(crate) fn fresh_key() -> Uuid {
    new_uuid(SystemClock.now())
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router
        .clone()
        .oneshot(request)
        .await
        .expect("routers always answer");
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .expect("the body ends");
    record::answer(&head.headers, &body);
    Answer {
        status: head.status,
        headers: head.headers,
        body: body.to_vec(),
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Checks the members that every problem has and returns the code.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{self:?}"
        );
        let body = self.json();
        let code = body["code"].as_str().expect("a code");
        assert_eq!(body["status"], self.status.as_u16());
        assert_eq!(
            body["type"],
            format!("https://api.sho.rt/docs/problems/{code}")
        );
        assert_eq!(body["request_id"], self.header("x-request-id"));
        for member in ["title", "detail", "instance"] {
            assert!(body[member].is_string(), "{member}");
        }
        code.to_owned()
    }
}
