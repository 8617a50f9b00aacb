//! The routes of the API that read. The methods of each path are listed in core's route table.

pub(crate) mod click_range;
pub(crate) mod clicks_csv;
pub(crate) mod get_clicks;
pub(crate) mod get_credits;
pub(crate) mod get_link;
pub(crate) mod get_link_history;
pub(crate) mod get_qr_code;
pub(crate) mod get_top_clicks;
pub(crate) mod get_top_links;
pub(crate) mod list_credit_entries;
pub(crate) mod list_events;
pub(crate) mod list_links;
pub(crate) mod list_tags;
mod ranking;
mod read_request;

use std::sync::Arc;

use axum::{
    Router,
    routing::{MethodRouter, get},
};
use linkledger_core::{api_key::Scope, clock::Clock};
use linkledger_http::{
    answer::{AnswerSettings, with_problem_details},
    gate::RouteGate,
    openapi,
    per_account_limit::PerAccountLimit,
    problem::Code,
    route_table,
};
use sqlx::PgPool;
use utoipa::OpenApi as _;

use crate::{
    checkpoint_watcher::CheckpointWatcher, console, docs, feed::Feed, history_reads::HistoryReads,
    problem_page, qr_codes::QrCodes, read_servers::ReadServers, statistics_reads::StatisticsReads,
};

/// State shared by the handlers.
pub(crate) struct ApiState {
    pub(crate) log: PgPool,
    pub(crate) read: ReadServers,
    pub(crate) statistics: StatisticsReads,
    pub(crate) histories: HistoryReads,
    pub(crate) feed: Feed,
    /// A page of tags counts up to a million links, and a search looks at 10,000.
    pub(crate) costly_pages: PerAccountLimit,
    pub(crate) qr_codes: QrCodes,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watcher: Arc<CheckpointWatcher>,
    pub(crate) base_url: Arc<str>,
    pub(crate) short_base_url: Arc<str>,
}

/// Operations of the OpenAPI document: every route of [`router`].
#[derive(utoipa::OpenApi)]
#[openapi(paths(
    list_links::list_links,
    get_link::get_link,
    get_link_history::get_link_history,
    get_qr_code::get_qr_code,
    get_credits::get_credits,
    list_credit_entries::list_credit_entries,
    list_events::list_events,
    list_tags::list_tags,
    get_clicks::get_link_clicks,
    get_clicks::get_clicks,
    get_top_clicks::get_top_link_clicks,
    get_top_clicks::get_top_clicks,
    get_top_links::get_top_links
))]
struct Operations;

/// Problems of each operation, without the problems that every operation has.
const PROBLEMS: &[(&str, &[Code])] = &[
    ("list_links", &[Code::InvalidCursor, Code::ReadModelBehind]),
    ("get_link", &[Code::LinkNotFound, Code::ReadModelBehind]),
    (
        "get_link_history",
        &[
            Code::InvalidCursor,
            Code::LinkNotFound,
            Code::ReadModelBehind,
        ],
    ),
    ("get_qr_code", &[Code::LinkNotFound, Code::ReadModelBehind]),
    ("get_credits", &[Code::ReadModelBehind]),
    (
        "list_credit_entries",
        &[Code::InvalidCursor, Code::ReadModelBehind],
    ),
    (
        "list_events",
        &[
            Code::InvalidCursor,
            Code::LogRestored,
            Code::ReadModelBehind,
        ],
    ),
    ("list_tags", &[Code::InvalidCursor, Code::ReadModelBehind]),
    ("get_link_clicks", &[Code::LinkNotFound]),
    ("get_clicks", &[]),
    ("get_top_link_clicks", &[Code::LinkNotFound]),
    ("get_top_clicks", &[]),
    ("get_top_links", &[Code::ReadModelBehind]),
];

/// Returns the OpenAPI document of the operations of query-api.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(Operations::openapi(), PROBLEMS)
}

/// Returns all routes, with the checks before their handlers and the form of their answers. The gate
/// is that of routes that read links. `webhooks` has the routes of owners' webhooks.
pub(crate) fn router(
    api: ApiState,
    gate: RouteGate,
    webhooks: Router,
    settings: AnswerSettings,
) -> Router {
    let mut credits_gate = gate.clone();
    credits_gate.scope = Scope::CreditsRead;
    credits_gate.serves_suspended_accounts = true;
    let mut clicks_gate = gate.clone();
    clicks_gate.scope = Scope::ClicksRead;
    let mut events_gate = gate.clone();
    events_gate.scope = Scope::EventsRead;
    events_gate.may_wait = true;
    let links_gate = gate;
    let routes = Router::new()
        .route(
            route_table::LINKS,
            links_gate.guard(get(list_links::list_links)),
        )
        // Without methods here, so that the path is not taken for that of a link.
        .route(route_table::LINK_BATCH, MethodRouter::new())
        .route(route_table::LINK, links_gate.guard(get(get_link::get_link)))
        .route(
            route_table::LINK_HISTORY,
            links_gate.guard(get(get_link_history::get_link_history)),
        )
        .route(
            route_table::LINK_QR_CODE,
            links_gate.guard(get(get_qr_code::get_qr_code)),
        )
        .route(
            route_table::TAGS,
            links_gate.guard(get(list_tags::list_tags)),
        )
        .route(
            route_table::CREDITS,
            credits_gate.guard(get(get_credits::get_credits)),
        )
        .route(
            route_table::CREDIT_ENTRIES,
            credits_gate.guard(get(list_credit_entries::list_credit_entries)),
        )
        .route(
            route_table::LINK_CLICKS,
            clicks_gate.guard(get(get_clicks::get_link_clicks)),
        )
        .route(
            route_table::LINK_TOP_CLICKS,
            clicks_gate.guard(get(get_top_clicks::get_top_link_clicks)),
        )
        .route(
            route_table::CLICKS,
            clicks_gate.guard(get(get_clicks::get_clicks)),
        )
        .route(
            route_table::TOP_CLICKS,
            clicks_gate.guard(get(get_top_clicks::get_top_clicks)),
        )
        .route(
            route_table::TOP_LINKS,
            clicks_gate.guard(get(get_top_links::get_top_links)),
        )
        .route(
            route_table::EVENTS,
            events_gate.guard(get(list_events::list_events)),
        )
        .with_state(Arc::new(api))
        .merge(webhooks)
        .merge(console::owners_router())
        .merge(docs::router())
        .merge(problem_page::router(Arc::clone(&settings.base_url)));
    with_problem_details(routes, settings)
}
