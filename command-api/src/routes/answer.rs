//! Parts of the answers that all commands share.

use std::{convert::identity, sync::Arc};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header::CACHE_CONTROL};
use linkledger_core::{
    batch::{CommandRejection, SettledCreate, SettledLink},
    consistency::{self, ConsistencyToken},
    envelope::Metadata,
    http::{
        authentication::Caller,
        request::{RequestContext, link_id},
    },
    id::AccountId,
    problem::Problem,
    shard::Position,
};

use super::{WriteState, problem_of_refusal};
use crate::{
    command_reply::{CommandRefusal, CommandReply, CommandResult},
    renderer,
};

/// Returns the metadata of the events of a command: the caller's key and the request.
pub(super) fn metadata(context: &RequestContext, caller: &Caller) -> Metadata {
    Metadata {
        actor: Some(caller.key_id.to_string()),
        request_id: Some(context.request_id().to_owned()),
        traceparent: Some(context.traceparent().to_owned()),
        ..Metadata::default()
    }
}

/// Returns the created link, and true if an earlier request with the same key created the link.
pub(super) fn to_settled(outcome: CommandResult) -> Result<(Arc<SettledCreate>, bool), Problem> {
    match outcome {
        CommandResult::Created(settled) => Ok((settled, false)),
        CommandResult::Replayed(settled) => Ok((settled, true)),
        CommandResult::Refused(refusal) => Err(problem_of_refusal::problem(&refusal)),
        CommandResult::Changed(_) | CommandResult::Bulk(_) | CommandResult::DryRun(_) => {
            Err(not_an_answer("a create"))
        }
    }
}

/// Returns the link in the requested state. A request that names no link by an id learns it where an unknown link is
/// answered, after the checks of its body.
pub(super) fn to_change(uri: &Uri, reply: CommandReply) -> Result<Arc<SettledLink>, Problem> {
    match reply.outcome {
        CommandResult::Changed(settled) => Ok(settled),
        CommandResult::Refused(CommandRefusal::Rejected(CommandRejection::LinkNotFound)) => {
            Err(link_id(uri).map_or_else(identity, |_| Problem::link_not_found()))
        }
        CommandResult::Refused(refusal) => Err(problem_of_refusal::problem(&refusal)),
        CommandResult::Created(_)
        | CommandResult::Replayed(_)
        | CommandResult::Bulk(_)
        | CommandResult::DryRun(_) => Err(not_an_answer("a change")),
    }
}

/// Returns the body of the answer to a create: the bytes of the first answer.
pub(super) fn rendered(settled: &SettledCreate) -> Result<Vec<u8>, Problem> {
    renderer::render(settled).ok_or_else(|| {
        tracing::error!(
            renderer = settled.renderer,
            "the answer was stored by a later release of command-api; run that release"
        );
        Problem::internal()
    })
}

/// Returns the headers of the answer to a command with its last event at `position`.
pub(super) fn headers(state: &WriteState, account_id: AccountId, position: Position) -> HeaderMap {
    let token = ConsistencyToken {
        epoch: state.log_epoch.get(),
        account_id,
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

/// Returns the problem for a reply of the wrong kind, which only a defect can cause.
pub(super) fn not_an_answer(to: &str) -> Problem {
    tracing::error!(
        "a command was answered with a reply of the wrong kind, not a reply to {to}; report this defect"
    );
    Problem::internal()
}
