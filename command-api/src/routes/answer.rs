//! What the answers to all commands have in common.

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

use super::{AppState, refusal};
use crate::command_queue::Reply;

/// Circumstances of a command: who asks, in which request.
pub(super) fn metadata(context: &RequestContext, caller: &Caller) -> Metadata {
    Metadata {
        actor: Some(caller.key_id.to_string()),
        request_id: Some(context.request_id().to_owned()),
        traceparent: Some(context.traceparent().to_owned()),
        ..Metadata::default()
    }
}

/// The link that was created, and whether this request has only repeated it.
pub(super) fn to_create(reply: Reply) -> Result<(Arc<SettledCreate>, bool), Problem> {
    match reply {
        Reply::Created(settled) => Ok((settled, false)),
        Reply::Replayed(settled) => Ok((settled, true)),
        Reply::Refused(refusal) => Err(refusal::problem(&refusal)),
        Reply::Changed(_) => Err(not_an_answer("a create")),
    }
}

/// The link that is as it was asked for.
pub(super) fn to_change(reply: Reply) -> Result<Arc<SettledLink>, Problem> {
    match reply {
        Reply::Changed(settled) => Ok(settled),
        Reply::Refused(refusal) => Err(refusal::problem(&refusal)),
        Reply::Created(_) | Reply::Replayed(_) => Err(not_an_answer("a change")),
    }
}

/// Headers of an answer that rests on the event at `position`.
pub(super) fn headers(state: &AppState, account_id: AccountId, position: Position) -> HeaderMap {
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

/// The queue has answered one command with the outcome of another: a defect.
fn not_an_answer(to: &str) -> Problem {
    tracing::error!("the reply is not one to {to}");
    Problem::internal()
}
