//! The routes of the API that read. The methods of each path are listed in core's route table.

pub(crate) mod get_credits;
pub(crate) mod get_link;
pub(crate) mod list_credit_entries;
pub(crate) mod list_links;

use std::sync::Arc;

use axum::{Router, middleware, routing::get};
use linkledger_core::{
    api_key::Scope,
    cursor::{CursorKeys, CursorScope},
    http::{
        answer::{AnswerSettings, with_problem_details},
        authentication::Authenticator,
        gate::RouteGate,
        rate_limit::{RateLimits, RequestClass},
        route_table,
    },
};
use sqlx::PgPool;

use crate::{
    checkpoint_watcher::CheckpointWatcher,
    docs,
    paging::Paginator,
    problem_page,
    read_model::links::{LinkKey, LinkRange},
    shared_reads::SharedReads,
};

/// `Cache-Control` of an answer that belongs to one account and may change at any time.
pub(crate) const NOT_SHARED: &str = "private, no-cache";

/// State shared by the handlers.
pub(crate) struct ApiState {
    pub(crate) pool: PgPool,
    pub(crate) links: SharedReads<LinkKey>,
    pub(crate) link_pages: SharedReads<LinkRange>,
    pub(crate) watcher: Arc<CheckpointWatcher>,
    pub(crate) cursor_keys: CursorKeys,
    pub(crate) base_url: Arc<str>,
    pub(crate) short_base_url: Arc<str>,
}

impl ApiState {
    /// Returns the paginator of one list of one account.
    fn list(&self, scope: CursorScope) -> Paginator<'_> {
        Paginator {
            scope,
            cursor_keys: &self.cursor_keys,
            base_url: &self.base_url,
        }
    }
}

/// Checks that every route makes before its handler runs.
pub(crate) struct ReadGuards {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) rate_limits: Option<Arc<RateLimits>>,
}

/// Returns all routes, with their guards and the form of their answers.
pub(crate) fn router(api: ApiState, guards: &ReadGuards, settings: AnswerSettings) -> Router {
    let gate = |scope| RouteGate {
        authenticator: Arc::clone(&guards.authenticator),
        rate_limits: guards.rate_limits.clone(),
        scope,
        class: RequestClass::Read,
    };
    // With `route_layer`, an unknown method gets 405 before any other check.
    let reads_links = middleware::from_fn_with_state(gate(Scope::LinksRead), RouteGate::pass);
    let reads_credits = middleware::from_fn_with_state(gate(Scope::CreditsRead), RouteGate::pass);
    let routes = Router::new()
        .route(
            route_table::LINKS,
            get(list_links::list_links).route_layer(reads_links.clone()),
        )
        .route(
            route_table::LINK,
            get(get_link::get_link).route_layer(reads_links),
        )
        .route(
            route_table::CREDITS,
            get(get_credits::get_credits).route_layer(reads_credits.clone()),
        )
        .route(
            route_table::CREDIT_ENTRIES,
            get(list_credit_entries::list_credit_entries).route_layer(reads_credits),
        )
        .with_state(Arc::new(api))
        .merge(docs::router())
        .merge(problem_page::router(Arc::clone(&settings.base_url)));
    with_problem_details(routes, settings)
}
