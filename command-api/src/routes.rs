//! The routes of the API that write. The methods of each path are listed in core's route table.

mod answer;
mod body;
pub mod change_destination;
pub mod create_link;
pub mod delete_link;
mod problem_of_refusal;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{patch, post},
};
use linkledger_core::{
    api_key::Scope,
    http::{
        answer::{AnswerSettings, with_problem_details},
        authentication::Authenticator,
        gate::RouteGate,
        observe::ServiceName,
        rate_limit::{RateLimits, RequestClass},
        route_table,
    },
    link::OwnHosts,
};

use crate::{command_queue::CommandQueue, log_end::LogEpoch};

/// State shared by the handlers.
#[derive(Clone)]
pub struct WriteState {
    /// Queue of commands.
    pub queue: CommandQueue,
    /// Hosts of the service, which no link may point to.
    pub own_hosts: Arc<OwnHosts>,
    /// Epoch of the log, for consistency tokens.
    pub log_epoch: LogEpoch,
    /// Start of every short address, without a slash at its end.
    pub short_base_url: Arc<str>,
}

/// Checks that every route makes before its handler runs.
pub struct WriteGuards {
    /// Authentication of the API key.
    pub authenticator: Arc<Authenticator>,
    /// Write requests per second of an account; 0 for no limit.
    pub rate_limit: u32,
    /// Start of the addresses of the problem pages.
    pub base_url: Arc<str>,
}

/// Returns all routes, with their guards and the form of their answers.
pub fn router(state: WriteState, guards: WriteGuards) -> Router {
    let gate = RouteGate {
        authenticator: guards.authenticator,
        rate_limits: RateLimits::new(guards.rate_limit).map(Arc::new),
        scope: Scope::LinksWrite,
        class: RequestClass::Write,
    };
    let guarded = middleware::from_fn_with_state(gate, RouteGate::pass);
    let routes = Router::new()
        .route(
            route_table::LINKS,
            post(create_link::create_link).route_layer(guarded.clone()),
        )
        .route(
            route_table::LINK,
            patch(change_destination::change_destination)
                .delete(delete_link::delete_link)
                .route_layer(guarded),
        )
        .with_state(state);
    with_problem_details(
        routes,
        AnswerSettings {
            base_url: guards.base_url,
            service: ServiceName::CommandApi,
        },
    )
}
