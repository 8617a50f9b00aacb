//! Parts of the answers that all commands share.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header::CACHE_CONTROL};
use linkledger_core::{
    commands::{ChangeResult, CreateResult, Outcome},
    consistency::{self, ConsistencyToken},
    shard::Position,
};
use linkledger_http::{
    problem::{Code, Problem},
    request::link_id,
};

use super::{command_request::CommandRequest, problem_of_rejection};
use crate::{command_queue::Reply, renderer};

/// Returns the effect of a command, or the problem of a command without effect.
pub(super) fn effect<T>(reply: Reply<Outcome<T>>) -> Result<T, Problem> {
    let outcome = reply?.outcome;
    outcome.map_err(|rejection| problem_of_rejection::problem(&rejection))
}

/// Returns the link in the requested state. A request that names no link by an id learns it where an unknown link is
/// answered, after the checks of its body.
pub(super) fn changed_link(
    uri: &Uri,
    reply: Reply<Outcome<Arc<ChangeResult>>>,
) -> Result<Arc<ChangeResult>, Problem> {
    effect(reply).map_err(|problem| {
        let of_path = link_id(uri).err();
        of_path
            .filter(|_| problem.code == Code::LinkNotFound)
            .unwrap_or(problem)
    })
}

/// Returns the body of the answer to a create: the bytes of the first answer.
pub(super) fn rendered(settled: &CreateResult) -> Result<Vec<u8>, Problem> {
    renderer::render(settled).ok_or_else(|| {
        tracing::error!(
            renderer = settled.renderer,
            "the answer was stored by a later release of command-api; run that release"
        );
        Problem::internal()
    })
}

/// Returns the headers of the answer to a command with its last event at `position`.
pub(super) fn headers(request: &CommandRequest, position: Position) -> HeaderMap {
    let token = ConsistencyToken {
        epoch: request.state.log_epoch.get(),
        account_id: request.caller.account_id,
        position,
    };
    let token = HeaderValue::from_str(&token.encode()).expect("tokens are ASCII");
    let mut headers = headers_without_token();
    headers.insert(HeaderName::from_static(consistency::HEADER), token);
    headers
}

/// Returns the headers of an answer that rests on no event.
pub(super) fn headers_without_token() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers
}
