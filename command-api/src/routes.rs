//! The routes of the API that write. The methods of each path are listed in core's route table.

mod answer;
mod body;
pub mod change_link;
pub mod create_link;
pub mod create_links;
pub mod delete_link;
mod problem_of_refusal;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{patch, post},
};
use linkledger_core::{
    http::{
        answer::{AnswerSettings, with_problem_details},
        gate::RouteGate,
        rate_limit::RateLimits,
        route_table,
    },
    link::DestinationRules,
    openapi,
    problem::Code,
};
use utoipa::OpenApi as _;

use crate::{command_queue::CommandQueue, log_end::LogEpoch};

/// State shared by the handlers.
#[derive(Clone)]
pub struct WriteState {
    /// Queue of commands.
    pub queue: CommandQueue,
    /// Hosts of the service, which no link may point to.
    pub destination_rules: Arc<DestinationRules>,
    /// Epoch of the log, for consistency tokens.
    pub log_epoch: LogEpoch,
    /// Start of every short address, without a slash at its end.
    pub short_base_url: Arc<str>,
    /// Base address of the API, for the problems of items.
    pub base_url: Arc<str>,
    /// Rate limits, for requests that count more than once; `None` for no limit.
    pub rate_limits: Option<Arc<RateLimits>>,
}

/// Operations of the OpenAPI document: every route of [`router`].
#[derive(utoipa::OpenApi)]
#[openapi(paths(
    create_link::create_link,
    create_links::create_links,
    change_link::change_link,
    delete_link::delete_link
))]
struct Operations;

/// Problems of each operation, without the problems that every operation has.
const PROBLEMS: &[(&str, &[Code])] = &[
    (
        "create_link",
        &[
            Code::MalformedJson,
            Code::BodyNotObject,
            Code::IdempotencyKeyMissing,
            Code::IdempotencyKeyInvalid,
            Code::InsufficientCredits,
            Code::SlugTaken,
            Code::ExternalIdTaken,
            Code::IdempotencyKeyInUse,
            Code::ContentTooLarge,
            Code::UnsupportedMediaType,
            Code::UnsupportedContentEncoding,
            Code::ValidationFailed,
            Code::IdempotencyKeyReused,
            Code::DeadlineExceeded,
        ],
    ),
    (
        "create_links",
        &[
            Code::MalformedJson,
            Code::BodyNotObject,
            Code::InsufficientCredits,
            Code::SlugTaken,
            Code::ExternalIdTaken,
            Code::IdempotencyKeyInUse,
            Code::ContentTooLarge,
            Code::UnsupportedMediaType,
            Code::UnsupportedContentEncoding,
            Code::ValidationFailed,
            Code::IdempotencyKeyReused,
            Code::DeadlineExceeded,
        ],
    ),
    (
        "change_link",
        &[
            Code::MalformedJson,
            Code::BodyNotObject,
            Code::LinkNotFound,
            Code::LinkDisabledByOperator,
            Code::ExternalIdTaken,
            Code::EtagMismatch,
            Code::ContentTooLarge,
            Code::UnsupportedMediaType,
            Code::UnsupportedContentEncoding,
            Code::ValidationFailed,
            Code::DeadlineExceeded,
        ],
    ),
    (
        "delete_link",
        &[
            Code::LinkNotFound,
            Code::EtagMismatch,
            Code::DeadlineExceeded,
        ],
    ),
];

/// Returns the OpenAPI document of the operations of command-api.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(Operations::openapi(), PROBLEMS)
}

/// Returns all routes, with the checks before their handlers and the form of their answers.
pub fn router(state: WriteState, gate: RouteGate, settings: AnswerSettings) -> Router {
    let guarded = middleware::from_fn_with_state(gate, RouteGate::pass);
    let routes = Router::new()
        .route(
            route_table::LINKS,
            post(create_link::create_link).route_layer(guarded.clone()),
        )
        .route(
            route_table::LINK_BATCH,
            post(create_links::create_links).route_layer(guarded.clone()),
        )
        .route(
            route_table::LINK,
            patch(change_link::change_link)
                .delete(delete_link::delete_link)
                .route_layer(guarded),
        )
        .with_state(state);
    with_problem_details(routes, settings)
}
