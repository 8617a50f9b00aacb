//! The routes of webhooks that read, of owners on the public API and of operators on the admin API
//! (`docs/api.md#webhooks`). Each handler is mounted on both.
//!
//! The event store answers, so each read shows a write as soon as the write was answered.

pub(crate) mod get_delivery;
pub(crate) mod get_webhook;
pub(crate) mod list_deliveries;
pub(crate) mod list_webhooks;
mod webhook_read;

use std::sync::Arc;

use axum::{
    Router,
    routing::{MethodRouter, get},
};
use linkledger_core::api_key::{AdminScope, Scope};
use linkledger_http::{
    admin_gate::AdminGate, gate::RouteGate, openapi, problem::Code, route_table,
};
use sqlx::PgPool;
use utoipa::OpenApi as _;

use crate::{
    checkpoint_watcher::CheckpointWatcher,
    slow_reads::{SlowReadAdvice, SlowReads},
};

/// Advice in the problems of reads of owners' webhooks.
pub(crate) const ADVICE: SlowReadAdvice = SlowReadAdvice {
    share_in_use: "Other webhooks or events of this account are being read: retry later, fewer requests at a time.",
    too_slow: "The webhooks took too long to read: retry later.",
};

/// State of the handlers for requests of owners.
pub(crate) struct OwnersWebhooks {
    /// Sessions of the event store.
    pub(crate) reads: SlowReads,
    /// Knows the epoch of the log.
    pub(crate) watcher: Arc<CheckpointWatcher>,
    /// Base address of the API.
    pub(crate) base_url: Arc<str>,
}

/// State of the handlers for requests of operators.
pub(crate) struct OperatorsWebhooks {
    /// Sessions of the event store.
    pub(crate) log: PgPool,
}

/// Operations of the OpenAPI documents: every route of both routers.
#[derive(utoipa::OpenApi)]
#[openapi(paths(
    list_webhooks::list_webhooks,
    get_webhook::get_webhook,
    list_deliveries::list_deliveries,
    get_delivery::get_delivery
))]
struct Operations;

/// Problems of each operation, without the problems that every operation has.
const PROBLEMS: &[(&str, &[Code])] = &[
    ("list_webhooks", &[]),
    ("get_webhook", &[Code::WebhookNotFound]),
    (
        "list_deliveries",
        &[Code::InvalidCursor, Code::WebhookNotFound],
    ),
    (
        "get_delivery",
        &[Code::WebhookNotFound, Code::DeliveryNotFound],
    ),
];

/// Returns the OpenAPI document of the operations on the public API.
pub(crate) fn openapi_of_owners() -> utoipa::openapi::OpenApi {
    openapi::complete(Operations::openapi(), PROBLEMS)
}

/// Returns the OpenAPI document of the same operations on the admin API.
pub(crate) fn openapi_of_operators() -> utoipa::openapi::OpenApi {
    let document = Operations::openapi();
    let document = openapi::for_operators(document, AdminScope::Read, AdminScope::Webhooks);
    openapi::complete_admin(document, PROBLEMS)
}

/// Returns the routes of the public API. The requirements are those of the gate, with another scope.
pub(crate) fn of_owners(state: OwnersWebhooks, gate: &RouteGate) -> Router {
    let mut gate = gate.clone();
    gate.scope = Scope::WebhooksRead;
    let guard = |route: MethodRouter<Arc<OwnersWebhooks>>| gate.guard(route);
    Router::new()
        .route(
            route_table::WEBHOOKS,
            guard(get(list_webhooks::list_webhooks)),
        )
        .route(route_table::WEBHOOK, guard(get(get_webhook::get_webhook)))
        .route(
            route_table::WEBHOOK_DELIVERIES,
            guard(get(list_deliveries::list_deliveries)),
        )
        .route(
            route_table::WEBHOOK_DELIVERY,
            guard(get(get_delivery::get_delivery)),
        )
        .with_state(Arc::new(state))
}

/// Returns the routes of the admin API.
pub(crate) fn of_operators(state: OperatorsWebhooks, gate: &AdminGate) -> Router {
    let guard = |route: MethodRouter<Arc<OperatorsWebhooks>>| gate.guard(AdminScope::Read, route);
    Router::new()
        .route(
            route_table::ADMIN_WEBHOOKS,
            guard(get(list_webhooks::list_webhooks)),
        )
        .route(
            route_table::ADMIN_WEBHOOK,
            guard(get(get_webhook::get_webhook)),
        )
        .route(
            route_table::ADMIN_WEBHOOK_DELIVERIES,
            guard(get(list_deliveries::list_deliveries)),
        )
        .route(
            route_table::ADMIN_WEBHOOK_DELIVERY,
            guard(get(get_delivery::get_delivery)),
        )
        .with_state(Arc::new(state))
}
