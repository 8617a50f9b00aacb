//! Reading a request's body: one JSON object, and all that is wrong with its members at once.

use axum::body::{Body, Bytes};
use linkledger_core::{
    field::{FieldCode, FieldError},
    http::request::{BODY_LENGTH_MAX, content_too_large},
    json::{JsonError, JsonObject},
    problem::{Code, Problem},
};
use serde_json::Value;

pub(super) const DESTINATION_URL: &str = "destination_url";
/// Most errors that one answer names.
const ERRORS_MAX: usize = 100;

/// The object that a body is.
///
/// # Errors
/// `content_too_large`, `malformed_json` or `body_not_object`.
pub(super) async fn read_object(body: Body) -> Result<JsonObject, Problem> {
    parse_object(&read(body).await?)
}

/// The whole body.
///
/// # Errors
/// `content_too_large` or `malformed_json`.
pub(super) async fn read(body: Body) -> Result<Bytes, Problem> {
    let bytes = axum::body::to_bytes(body, BODY_LENGTH_MAX).await;
    bytes.map_err(|error| {
        if is_length_limit(&error) {
            return content_too_large();
        }
        let detail = "The body ended before it was complete.";
        Problem::new(Code::MalformedJson, detail)
    })
}

/// The object that the bytes of a body are.
///
/// # Errors
/// `malformed_json` or `body_not_object`.
pub(super) fn parse_object(bytes: &[u8]) -> Result<JsonObject, Problem> {
    JsonObject::parse(bytes).map_err(|error| match error {
        JsonError::Malformed => Problem::new(
            Code::MalformedJson,
            "Send one JSON object in UTF-8: no duplicate members, no byte order mark.",
        ),
        JsonError::NotAnObject => Problem::new(Code::BodyNotObject, "Send a JSON object: {…}."),
    })
}

/// The text of a member.
pub(super) fn text(value: &Value) -> Result<&str, FieldCode> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Err(FieldCode::NullNotAllowed),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(FieldCode::WrongType)
        }
    }
}

/// The errors in the order of their members, as many as one answer names.
pub(super) fn sorted(errors: impl Iterator<Item = FieldError>) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = errors.collect();
    errors.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    errors.truncate(ERRORS_MAX);
    errors
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}
