//! The routes of the admin API that read: accounts, keys, ledgers, links and events of all accounts
//! (`docs/admin-api.md`). The same listener has the files of the console for operators, which calls the API.
//!
//! The event store answers them, so each shows a write as soon as the write was answered: a `Consistency-Token` needs
//! no wait.

pub(crate) mod admin_request;
mod event_body;
mod event_pages;
pub(crate) mod find_link;
pub(crate) mod get_account;
pub(crate) mod get_key;
pub(crate) mod list_accounts;
pub(crate) mod list_entries;
pub(crate) mod list_events;
pub(crate) mod list_keys;
pub(crate) mod list_link_events;

use std::sync::Arc;

use axum::{
    Router,
    routing::{MethodRouter, get},
};
use linkledger_core::api_key::AdminScope;
use linkledger_http::{
    admin_gate::AdminGate,
    answer::{AnswerSettings, with_problem_details},
    openapi,
    problem::Code,
    route_table,
};
use sqlx::PgPool;
use utoipa::OpenApi as _;

use crate::console;

/// State shared by the handlers.
pub(crate) struct AdminState {
    /// Sessions on the event store. Only the admin API uses them: its reads of many events delay no owner.
    pub(crate) log: PgPool,
    pub(crate) short_base_url: Arc<str>,
}

/// Operations of the OpenAPI document: every route of [`router`].
#[derive(utoipa::OpenApi)]
#[openapi(paths(
    list_accounts::list_accounts,
    get_account::get_account,
    get_account::get_account_by_external_id,
    list_keys::list_keys,
    get_key::get_key,
    list_entries::list_entries,
    find_link::find_link,
    list_link_events::list_link_events,
    list_events::list_account_events,
    list_events::list_events
))]
struct Operations;

/// Problems of each operation, without the problems that every operation has.
const PROBLEMS: &[(&str, &[Code])] = &[
    ("list_accounts", &[Code::InvalidCursor]),
    ("get_account", &[Code::AccountNotFound]),
    ("get_account_by_external_id", &[Code::AccountNotFound]),
    ("list_keys", &[Code::InvalidCursor, Code::AccountNotFound]),
    ("get_key", &[Code::KeyNotFound]),
    (
        "list_entries",
        &[
            Code::InvalidCursor,
            Code::AccountNotFound,
            Code::LinkNotFound,
            Code::ReadModelBehind,
        ],
    ),
    ("find_link", &[Code::LinkNotFound, Code::ReadModelBehind]),
    (
        "list_link_events",
        &[Code::InvalidCursor, Code::LinkNotFound],
    ),
    (
        "list_account_events",
        &[Code::InvalidCursor, Code::AccountNotFound],
    ),
    ("list_events", &[Code::InvalidCursor]),
];

/// Returns the OpenAPI document of the operations of the admin API that query-api answers.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete_admin(Operations::openapi(), PROBLEMS)
}

/// Returns all routes, with the checks before their handlers and the form of their answers. `webhooks` has the routes of
/// operators' webhooks.
pub(crate) fn router(
    admin: AdminState,
    gate: &AdminGate,
    webhooks: Router,
    settings: AnswerSettings,
) -> Router {
    let read = |route: MethodRouter<Arc<AdminState>>| gate.guard(AdminScope::Read, route);
    let routes = Router::new()
        .route(
            route_table::ADMIN_ACCOUNTS,
            read(get(list_accounts::list_accounts)),
        )
        .route(
            route_table::ADMIN_ACCOUNT,
            read(get(get_account::get_account)),
        )
        .route(
            route_table::ADMIN_ACCOUNT_BY_EXTERNAL_ID,
            read(get(get_account::get_account_by_external_id)),
        )
        .route(
            route_table::ADMIN_ACCOUNT_KEYS,
            read(get(list_keys::list_keys)),
        )
        .route(route_table::ADMIN_KEY, read(get(get_key::get_key)))
        .route(
            route_table::ADMIN_ACCOUNT_ENTRIES,
            read(get(list_entries::list_entries)),
        )
        .route(route_table::ADMIN_LINKS, read(get(find_link::find_link)))
        .route(
            route_table::ADMIN_LINK_EVENTS,
            read(get(list_link_events::list_link_events)),
        )
        .route(
            route_table::ADMIN_ACCOUNT_EVENTS,
            read(get(list_events::list_account_events)),
        )
        .route(
            route_table::ADMIN_EVENTS,
            read(get(list_events::list_events)),
        )
        .with_state(Arc::new(admin))
        .merge(webhooks)
        .merge(console::operators_router());
    with_problem_details(routes, settings)
}
