//! The routes of the API that write. The methods of each path are listed in core's route table.

mod answer;
pub mod body;
pub mod change_link;
pub mod command_request;
pub mod create_link;
pub mod create_links;
pub mod delete_link;
mod problem_of_rejection;

use std::sync::Arc;

use axum::{
    Router,
    routing::{patch, post},
};
use linkledger_core::link::DestinationRules;
use linkledger_http::{
    answer::{AnswerSettings, with_problem_details},
    gate::RouteGate,
    openapi,
    problem::Code,
    rate_limit::{RateLimits, RequestClass},
    route_table,
};
use utoipa::OpenApi as _;

use self::body::BodyRoom;
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
    /// Memory for the bodies of requests.
    pub bodies: Arc<BodyRoom>,
    /// Rate limits, for the items of batches; `None` for no limit.
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

/// Problems of operations with a body.
const BODY: &[Code] = &[
    Code::MalformedJson,
    Code::BodyNotObject,
    Code::ContentTooLarge,
    Code::UnsupportedMediaType,
    Code::UnsupportedContentEncoding,
    Code::ValidationFailed,
];
const KEY_HEADER: &[Code] = &[Code::IdempotencyKeyMissing, Code::IdempotencyKeyInvalid];
const CREATE: &[Code] = &[
    Code::InsufficientCredits,
    Code::SlugTaken,
    Code::ExternalIdTaken,
    Code::IdempotencyKeyInUse,
    Code::IdempotencyKeyReused,
    Code::DeadlineExceeded,
];
const DELETE: &[Code] = &[
    Code::LinkNotFound,
    Code::EtagMismatch,
    Code::DeadlineExceeded,
];
/// Problems of a change, beyond those of a deletion.
const CHANGE: &[Code] = &[Code::LinkDisabledByOperator, Code::ExternalIdTaken];

/// Returns the OpenAPI document of the operations of command-api.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(
        Operations::openapi(),
        &[
            ("create_link", &[BODY, KEY_HEADER, CREATE].concat()[..]),
            ("create_links", &[BODY, CREATE].concat()[..]),
            ("change_link", &[BODY, DELETE, CHANGE].concat()[..]),
            ("delete_link", DELETE),
        ],
    )
}

/// Returns all routes, with the checks before their handlers and the form of their answers. `others` has those of
/// other folders.
pub fn router(
    state: WriteState,
    gate: RouteGate,
    others: Router,
    settings: AnswerSettings,
) -> Router {
    let mut batch_gate = gate.clone();
    batch_gate.class = RequestClass::Batch;
    let write_gate = gate;
    let link = patch(change_link::change_link).delete(delete_link::delete_link);
    let links = post(create_link::create_link);
    let batch = post(create_links::create_links);
    let routes = Router::new()
        .route(route_table::LINKS, write_gate.guard(links))
        .route(route_table::LINK_BATCH, batch_gate.guard(batch))
        .route(route_table::LINK, write_gate.guard(link))
        .with_state(state)
        .merge(others);
    with_problem_details(routes, settings)
}
