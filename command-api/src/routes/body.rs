//! Reads the body of a request: one JSON object.

use axum::body::{Body, Bytes};
use linkledger_core::{
    http::request::BODY_LENGTH_MAX,
    json::{JsonError, JsonObject},
    problem::{Code, Problem},
};

/// Reads the JSON object in a body.
///
/// # Errors
/// Returns `content_too_large`, `malformed_json` or `body_not_object`.
pub(super) async fn read_object(body: Body) -> Result<JsonObject, Problem> {
    parse_object(&read(body, BODY_LENGTH_MAX).await?)
}

/// Reads the whole body, of at most `length_max` bytes.
///
/// # Errors
/// Returns `content_too_large` or `malformed_json`.
pub(super) async fn read(body: Body, length_max: usize) -> Result<Bytes, Problem> {
    let bytes = axum::body::to_bytes(body, length_max).await;
    bytes.map_err(|error| {
        if is_length_limit(&error) {
            return Problem::content_too_large(length_max);
        }
        let detail = "The body ended before it was complete.";
        Problem::new(Code::MalformedJson, detail)
    })
}

/// Parses the bytes of a body as a JSON object.
///
/// # Errors
/// Returns `malformed_json` or `body_not_object`.
pub(super) fn parse_object(bytes: &[u8]) -> Result<JsonObject, Problem> {
    JsonObject::parse(bytes).map_err(|error| match error {
        JsonError::Malformed(place) => Problem::malformed_json(place),
        JsonError::Array => Problem::body_is_array(),
        JsonError::NotAnObject => Problem::body_not_object(),
    })
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
