//! Parts of the answers that all commands share.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header::CACHE_CONTROL};
use linkledger_core::{
    batch::{SettledCreate, SettledLink},
    consistency::{self, ConsistencyToken},
    envelope::Metadata,
    http::{authentication::Caller, request::RequestContext},
    id::AccountId,
    problem::Problem,
    shard::Position,
};

use super::{WriteState, problem_of_refusal};
use crate::command_reply::CommandReply;

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
pub(super) fn to_create(reply: CommandReply) -> Result<(Arc<SettledCreate>, bool), Problem> {
    match reply {
        CommandReply::Created(settled) => Ok((settled, false)),
        CommandReply::Replayed(settled) => Ok((settled, true)),
        CommandReply::Refused(refusal) => Err(problem_of_refusal::problem(&refusal)),
        CommandReply::Changed(_) => Err(not_an_answer("a create")),
    }
}

/// Returns the link in the requested state.
pub(super) fn to_change(reply: CommandReply) -> Result<Arc<SettledLink>, Problem> {
    match reply {
        CommandReply::Changed(settled) => Ok(settled),
        CommandReply::Refused(refusal) => Err(problem_of_refusal::problem(&refusal)),
        CommandReply::Created(_) | CommandReply::Replayed(_) => Err(not_an_answer("a change")),
    }
}

/// Returns the headers of the answer to a command with its last event at `position`.
pub(super) fn headers(state: &WriteState, account_id: AccountId, position: Position) -> HeaderMap {
    let token = ConsistencyToken {
        epoch: state.log_epoch.get(),
        account_id,
        position,
    };
    let token = HeaderValue::from_str(&token.encode()).expect("tokens are ASCII");
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static(consistency::HEADER), token);
    headers
}

/// Returns the problem for a reply of the wrong kind, which only a defect can cause.
fn not_an_answer(to: &str) -> Problem {
    tracing::error!(
        "a command was answered with a reply of the wrong kind, not a reply to {to}; report this defect"
    );
    Problem::internal()
}
