//! The routes of the admin API that the projector answers: the status, and pauses of followers (`docs/admin-api.md`).
//! Each handler calls a function of [`operations`](crate::operations), as the command line does.
//!
//! They are here because the projector owns the read tables, which may be on a server of their own: neither command-api
//! nor query-api may write them.

pub mod get_status;
pub mod pause_follower;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    routing::{MethodRouter, get, post},
};
use linkledger_core::{
    api_key::AdminScope,
    clock::{Clock, SystemClock},
};
use linkledger_event_store::{SessionKind, session_options};
use linkledger_http::{
    admin_gate::AdminGate,
    answer::{AnswerSettings, with_problem_details},
    observe::ServiceName,
    openapi::{self, request_body},
    problem::Code,
    rate_limit::RequestClass,
    route_table,
    served_hosts::ServedHosts,
};
use linkledger_service::databases::Databases;
use sqlx::{PgPool, postgres::PgPoolOptions};
use utoipa::OpenApi as _;

use crate::config::Config;

/// Maximum number of sessions of each pool of the admin API.
const POOL_CONNECTIONS_MAX: u32 = 2;
/// Maximum number of sessions of the admin API with one database: for the status, for keys, and for pauses.
pub(crate) const CONNECTIONS_MAX: u32 = 3 * POOL_CONNECTIONS_MAX;
/// Longest wait for a session that reads.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// Value of `Cache-Control`: the answers are momentary.
const NO_STORE: &str = "no-store";

/// State shared by the handlers.
pub struct AdminState {
    /// Read-only sessions, for the status.
    databases: Databases,
    /// Sessions with the read tables that pause and resume. The projector has others, so no pause that waits for a lock
    /// delays it; and these wait for the disk, so a crash of Postgres does not undo a pause.
    writer: PgPool,
}

/// Operations of the OpenAPI document: every route of [`router`].
#[derive(utoipa::OpenApi)]
#[openapi(paths(
    get_status::get_status,
    pause_follower::pause_follower,
    pause_follower::resume_follower
))]
struct Operations;

/// Returns the OpenAPI document of the operations of the admin API that the projector answers.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let on_follower = [request_body::PROBLEMS, &[Code::RouteNotFound]].concat();
    openapi::complete_admin(
        Operations::openapi(),
        &[
            ("pause_follower", &on_follower[..]),
            ("resume_follower", &on_follower[..]),
            ("get_status", &[]),
        ],
    )
}

/// Returns all routes, with sessions of their own, the checks before their handlers and the form of their answers.
///
/// # Errors
/// Returns an error if the address of a database is not valid.
pub fn router(config: &Config) -> sqlx::Result<Router> {
    let databases = config.databases.pools_by(read_only_pool)?;
    let url = config.databases.read_url();
    let writer = linkledger_event_store::pool(url, SessionKind::Writer, POOL_CONNECTIONS_MAX)?;
    // Statuses that take long must not keep anybody from a pause.
    let keys = read_only_pool(config.databases.log_url())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let gate = |class| AdminGate::new(keys.clone(), Arc::clone(&clock), class);
    let (reads, commands) = (gate(RequestClass::Read), gate(RequestClass::Write));
    let change =
        |route: MethodRouter<Arc<AdminState>>| commands.guard(AdminScope::Operations, route);
    let routes = Router::new()
        .route(
            route_table::ADMIN_STATUS,
            reads.guard(AdminScope::Read, get(get_status::get_status)),
        )
        .route(
            route_table::ADMIN_FOLLOWER_PAUSE,
            change(post(pause_follower::pause_follower)),
        )
        .route(
            route_table::ADMIN_FOLLOWER_RESUME,
            change(post(pause_follower::resume_follower)),
        )
        .with_state(Arc::new(AdminState { databases, writer }));
    let base_url: Arc<str> = config.base_url.as_str().into();
    let settings = AnswerSettings {
        // No path of the admin API is that of a short link, so no answer names the address of short links.
        short_base_url: Arc::clone(&base_url),
        base_url,
        hosts: ServedHosts::internal(config.admin_allowed_hosts.clone()),
        service: ServiceName::AdminApi,
    };
    Ok(with_problem_details(routes, settings))
}

/// Returns a pool of read-only sessions with short timeouts.
fn read_only_pool(database_url: &str) -> sqlx::Result<PgPool> {
    let options = session_options(database_url, SessionKind::Reader)?;
    let options = options.options([
        ("default_transaction_read_only", "on"),
        ("statement_timeout", "2s"),
        ("lock_timeout", "1s"),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(POOL_CONNECTIONS_MAX)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options))
}
