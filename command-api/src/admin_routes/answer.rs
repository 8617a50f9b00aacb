//! The answers that all admin commands share.

use axum::{
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    consistency::{self, ConsistencyToken},
    id::AccountId,
    shard::Position,
};
use serde::Serialize;

use super::AdminState;
use crate::admin::error::Done;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Returns the answer to a command. A replay has the same body as the first answer, except for secrets.
pub(super) fn done<T: Serialize>(
    state: &AdminState,
    status: StatusCode,
    account_id: AccountId,
    done: &Done<T>,
) -> Response {
    let mut response = replayable(status, done);
    if let Some(position) = done.position {
        add_token(&mut response, state.log_epoch.get(), account_id, position);
    }
    response
}

/// Returns the answer to a command, without a token.
pub(crate) fn replayable<T: Serialize>(status: StatusCode, done: &Done<T>) -> Response {
    let mut response = json(status, &done.value);
    if done.replayed {
        let headers = response.headers_mut();
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Adds the consistency token of an event.
pub(crate) fn add_token(
    response: &mut Response,
    epoch: i32,
    account_id: AccountId,
    position: Position,
) {
    let token = ConsistencyToken {
        epoch,
        account_id,
        position,
    };
    let token = HeaderValue::from_str(&token.encode()).expect("tokens are ASCII");
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static(consistency::HEADER), token);
}

/// Returns an answer with a JSON body, which no cache keeps.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let body = serde_json::to_vec(value).expect("a view can be written");
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Adds the path of what was created.
pub(crate) fn at(mut response: Response, path: &str) -> Response {
    let path = HeaderValue::from_str(path).expect("ids are ASCII");
    response.headers_mut().insert(LOCATION, path);
    response
}
