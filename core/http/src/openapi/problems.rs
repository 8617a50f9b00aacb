//! Problems in the document: an example for each code, and the possible codes of each operation and
//! status.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::openapi::{Header, RefOr, Response};

use super::EXAMPLE_BASE_URL;
use crate::problem::{Code, EXAMPLE_REQUEST_ID, Problem};

/// Returns the answers with these codes, by status.
pub(super) fn responses(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(*code);
    }
    by_status
        .into_iter()
        .map(|(status, codes)| (status.to_string(), response(&codes).into()))
        .collect()
}

fn response(codes: &[Code]) -> Response {
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let meanings = codes
        .iter()
        .map(|code| format!("`{}`: {}", code.as_str(), code.meaning()));
    let example = |name: &&str| {
        let reference = json!({ "$ref": format!("#/components/examples/{name}") });
        ((*name).to_owned(), reference)
    };
    let response = json!({
        "description": meanings.collect::<Vec<_>>().join("\n\n"),
        "content": { "application/problem+json": {
            // One schema for all: generated clients get one type of problem. The names of the examples are the
            // possible codes.
            "schema": { "$ref": "#/components/schemas/Problem" },
            "examples": names.iter().map(example).collect::<Map<_, _>>(),
        } },
    });
    let mut response: Response = serde_json::from_value(response).expect("a response");
    let headers = headers(codes).into_iter();
    response.headers = headers
        .map(|name| (name.to_owned(), Header::default().into()))
        .collect();
    response
}

/// Returns the headers that come with some of these codes.
fn headers(codes: &[Code]) -> Vec<&'static str> {
    let any = |wanted: &[Code]| wanted.iter().any(|code| codes.contains(code));
    let mut names = Vec::new();
    if any(&[Code::AuthenticationRequired, Code::InsufficientScope]) {
        names.push("WWW-Authenticate");
    }
    if any(&[
        Code::IdempotencyKeyInUse,
        Code::RateLimited,
        Code::Overloaded,
        Code::StorageUnavailable,
        Code::ReadModelBehind,
        Code::DeadlineExceeded,
    ]) {
        names.push("Retry-After");
    }
    if any(&[Code::EtagMismatch]) {
        names.push("ETag");
    }
    names
}

/// Returns an example problem of each code.
pub(super) fn examples() -> Value {
    let example = |code: &Code| {
        let value = Problem::example_of(*code).to_body(EXAMPLE_BASE_URL, EXAMPLE_REQUEST_ID);
        let example = json!({ "summary": code.title(), "value": value });
        (code.as_str().to_owned(), example)
    };
    Code::ALL.iter().map(example).collect()
}
