//! The routes of webhooks that write, of owners on the public API and of operators on the admin API
//! (`docs/api.md#webhooks`). Each handler is mounted on both.

pub mod change_webhook;
pub mod create_webhook;
pub mod delete_webhook;
mod members;
pub mod replay_webhook;
pub mod retry_delivery;
pub mod rotate_secret;
mod schema;
pub mod test_webhook;
mod webhook_request;

use std::sync::Arc;

use axum::{
    Router,
    routing::{MethodRouter, patch, post},
};
use linkledger_core::{
    api_key::{AdminScope, Scope},
    clock::Clock,
    webhook::{MasterKeys, UrlRules},
};
use linkledger_http::{
    admin_gate::AdminGate,
    gate::RouteGate,
    openapi::{self, request_body::PROBLEMS as BODY},
    per_account_limit::PerAccountLimit,
    problem::Code,
    route_table,
};
use sqlx::PgPool;
use utoipa::{OpenApi as _, ToSchema as _};

use self::{change_webhook::WebhookPatch, create_webhook::WebhookCreate, schema::Audience};
use crate::{log_end::LogEpoch, routes::body::BodyRoom};

/// State of the handlers.
#[derive(Clone)]
pub struct WebhookWrites {
    /// Sessions of kind `Writer`.
    pub pool: PgPool,
    /// Clock of the decisions.
    pub clock: Arc<dyn Clock>,
    /// Epoch of the log, for consistency tokens.
    pub log_epoch: LogEpoch,
    settings: Arc<WebhookSettings>,
    /// Shares of the accounts in the sessions.
    shares: Arc<PerAccountLimit>,
    /// Memory for the bodies of requests of owners.
    bodies: Arc<BodyRoom>,
}

/// State of the handlers for requests of owners.
#[derive(Clone)]
pub struct OwnersWebhooks(Arc<WebhookWrites>);

/// State of the handlers for requests of operators.
#[derive(Clone)]
pub struct OperatorsWebhooks(Arc<WebhookWrites>);

/// Settings of webhooks.
#[derive(Debug)]
pub struct WebhookSettings {
    /// Keys from which the secrets are derived; `None` if webhooks are off.
    pub master_keys: Option<MasterKeys>,
    /// Rules for the addresses.
    pub url_rules: UrlRules,
}

impl WebhookWrites {
    /// Returns the state of handlers on the sessions of the pool. One session at a time is an account's.
    pub fn new(
        pool: PgPool,
        clock: Arc<dyn Clock>,
        log_epoch: LogEpoch,
        settings: WebhookSettings,
    ) -> Self {
        let sessions = pool.options().get_max_connections() as usize;
        Self {
            pool,
            clock,
            log_epoch,
            settings: Arc::new(settings),
            shares: Arc::new(PerAccountLimit::new(1, sessions)),
            bodies: Arc::default(),
        }
    }

    /// Returns the state of the same handlers on other sessions.
    #[must_use]
    pub(crate) fn on(&self, pool: PgPool) -> Self {
        Self {
            pool,
            ..self.clone()
        }
    }
}

/// Operations of the OpenAPI documents: every route of both routers.
#[derive(utoipa::OpenApi)]
#[openapi(paths(
    create_webhook::create_webhook,
    change_webhook::change_webhook,
    delete_webhook::delete_webhook,
    rotate_secret::rotate_secret,
    test_webhook::test_webhook,
    replay_webhook::replay_webhook,
    retry_delivery::retry_delivery
))]
struct Operations;

const OFF: &[Code] = &[Code::WebhooksOff];
const KEY: &[Code] = &[Code::IdempotencyKeyInvalid, Code::IdempotencyKeyReused];
const NO_WEBHOOK: &[Code] = &[Code::WebhookNotFound, Code::DeadlineExceeded];
const LIMIT: &[Code] = &[Code::WebhookLimitReached];
const DISABLED: &[Code] = &[Code::WebhookDisabled];
const REPLAY: &[Code] = &[Code::ReplayInProgress];
const NO_DELIVERY: &[Code] = &[Code::DeliveryNotFound];

/// Calls `complete` with the document and the problems of each operation.
fn completed(
    document: utoipa::openapi::OpenApi,
    complete: impl FnOnce(utoipa::openapi::OpenApi, &[(&str, &[Code])]) -> utoipa::openapi::OpenApi,
) -> utoipa::openapi::OpenApi {
    complete(
        document,
        &[
            ("create_webhook", &[BODY, OFF, KEY, LIMIT].concat()[..]),
            ("change_webhook", &[BODY, OFF, NO_WEBHOOK].concat()[..]),
            ("delete_webhook", &[OFF, NO_WEBHOOK].concat()[..]),
            ("rotate_secret", &[BODY, OFF, KEY, NO_WEBHOOK].concat()[..]),
            ("test_webhook", &[OFF, NO_WEBHOOK, DISABLED].concat()[..]),
            (
                "replay_webhook",
                &[BODY, OFF, NO_WEBHOOK, DISABLED, REPLAY].concat()[..],
            ),
            (
                "retry_delivery",
                &[OFF, NO_WEBHOOK, DISABLED, NO_DELIVERY].concat()[..],
            ),
        ],
    )
}

/// Returns the OpenAPI document of the operations on the public API.
pub(crate) fn openapi_of_owners() -> utoipa::openapi::OpenApi {
    completed(Operations::openapi(), openapi::complete)
}

/// Returns the OpenAPI document of the same operations on the admin API.
pub(crate) fn openapi_of_operators() -> utoipa::openapi::OpenApi {
    let document = Operations::openapi();
    let mut document = openapi::for_operators(document, AdminScope::Read, AdminScope::Webhooks);
    let components = document.components.get_or_insert_default();
    for (name, schema) in [
        (WebhookCreate::name(), schema::creation(Audience::Operators)),
        (WebhookPatch::name(), schema::patch(Audience::Operators)),
    ] {
        components.schemas.insert(name.into_owned(), schema);
    }
    completed(document, openapi::complete_admin)
}

/// Returns the routes of the public API. The requirements are those of the gate, with another scope.
pub(crate) fn of_owners(state: WebhookWrites, gate: &RouteGate) -> Router {
    let mut gate = gate.clone();
    gate.scope = Scope::WebhooksWrite;
    let guard = |route: MethodRouter<OwnersWebhooks>| gate.guard(route);
    let webhook = patch(change_webhook::change_webhook).delete(delete_webhook::delete_webhook);
    Router::new()
        .route(
            route_table::WEBHOOKS,
            guard(post(create_webhook::create_webhook)),
        )
        .route(route_table::WEBHOOK, guard(webhook))
        .route(
            route_table::WEBHOOK_ROTATE_SECRET,
            guard(post(rotate_secret::rotate_secret)),
        )
        .route(
            route_table::WEBHOOK_TEST,
            guard(post(test_webhook::test_webhook)),
        )
        .route(
            route_table::WEBHOOK_REPLAY,
            guard(post(replay_webhook::replay_webhook)),
        )
        .route(
            route_table::WEBHOOK_DELIVERY_RETRY,
            guard(post(retry_delivery::retry_delivery)),
        )
        .with_state(OwnersWebhooks(Arc::new(state)))
}

/// Returns the routes of the admin API.
pub(crate) fn of_operators(state: WebhookWrites, gate: &AdminGate) -> Router {
    let guard = |route: MethodRouter<OperatorsWebhooks>| gate.guard(AdminScope::Webhooks, route);
    let webhook = patch(change_webhook::change_webhook).delete(delete_webhook::delete_webhook);
    Router::new()
        .route(
            route_table::ADMIN_WEBHOOKS,
            guard(post(create_webhook::create_webhook)),
        )
        .route(route_table::ADMIN_WEBHOOK, guard(webhook))
        .route(
            route_table::ADMIN_WEBHOOK_ROTATE_SECRET,
            guard(post(rotate_secret::rotate_secret)),
        )
        .route(
            route_table::ADMIN_WEBHOOK_TEST,
            guard(post(test_webhook::test_webhook)),
        )
        .route(
            route_table::ADMIN_WEBHOOK_REPLAY,
            guard(post(replay_webhook::replay_webhook)),
        )
        .route(
            route_table::ADMIN_WEBHOOK_DELIVERY_RETRY,
            guard(post(retry_delivery::retry_delivery)),
        )
        .with_state(OperatorsWebhooks(Arc::new(state)))
}
