//! Shared parts of both services' OpenAPI documents. Each operation is described at its handler;
//! `openapi/shared.json` has headers, the schema of problems and the security scheme of the API key;
//! this module adds the problems of each operation.

mod answers;
mod problems;

pub use linkledger_core::schemas::{ExternalId, SentTimestamp, ShortUrl, TagSet, Timestamp, Title};

use serde_json::{Value, json};
use utoipa::openapi::{
    Header, OpenApi, Ref, RefOr,
    extensions::Extensions,
    path::{Operation, PathItem},
};

use crate::problem::Code;

/// Base address in examples.
const EXAMPLE_BASE_URL: &str = "https://api.example.com";

/// Headers that are present whenever the document lists them.
const REQUIRED_HEADERS: [&str; 4] = ["X-Request-Id", "ETag", "Location", "Consistency-Token"];

/// Problems that every operation may answer with.
const COMMON_PROBLEMS: [Code; 16] = [
    Code::InvalidHeader,
    Code::InvalidParameter,
    Code::AuthenticationRequired,
    Code::ApiKeyInvalid,
    Code::ApiKeyExpired,
    Code::ApiKeyRevoked,
    Code::InsufficientScope,
    Code::AccountSuspended,
    Code::NotAcceptable,
    Code::UriTooLong,
    Code::HostNotServed,
    Code::HeadersTooLarge,
    Code::RateLimited,
    Code::InternalError,
    Code::Overloaded,
    Code::StorageUnavailable,
];

/// Completes a service's document. `problems` lists, for each operation, its problems beyond the
/// common ones.
///
/// # Panics
/// Panics if `problems` lacks an operation.
pub fn complete(mut document: OpenApi, problems: &[(&str, &[Code])]) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            let id = operation.operation_id.clone().unwrap_or_default();
            let (_, own) = problems
                .iter()
                .find(|(operation_id, _)| *operation_id == id)
                .unwrap_or_else(|| panic!("the problems of {id} are listed"));
            complete_operation(operation, own);
        }
    }
    let mut document = shared_parts().merge_from(document);
    answers::loosen(&mut document);
    document
}

/// Returns a document with the parts that all operations share, and without operations.
fn shared_parts() -> OpenApi {
    let shared = include_str!("openapi/shared.json");
    let mut shared: Value = serde_json::from_str(shared).expect("the file is JSON");
    shared["info"]["version"] = json!(env!("CARGO_PKG_VERSION"));
    shared["info"]["description"] = json!(include_str!("openapi/introduction.md"));
    shared["components"]["examples"] = problems::examples();
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    shared["components"]["schemas"]["Problem"]["properties"]["code"]["x-extensible-enum"] =
        json!(codes);
    let mut shared: OpenApi = serde_json::from_value(shared).expect("the file is a document");
    let headers = &mut shared.components.get_or_insert_default().headers;
    for name in REQUIRED_HEADERS {
        // The type `Header` has no field `required`, so the file cannot have it.
        if let Some(RefOr::T(header)) = headers.get_mut(name) {
            header.extensions = Some(Extensions::from_iter([("required", true)]));
        }
    }
    shared
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.post,
        &mut item.patch,
        &mut item.delete,
    ]
    .into_iter()
    .flatten()
}

fn complete_operation(operation: &mut Operation, own_problems: &[Code]) {
    let codes = [&COMMON_PROBLEMS, own_problems].concat();
    let responses = &mut operation.responses.responses;
    responses.extend(problems::responses(&codes));
    for (status, response) in responses {
        let RefOr::T(response) = response else {
            continue;
        };
        let common: &[&str] = match status.as_str() {
            // The account, whose requests are counted, is unknown then.
            "401" | "421" => &["X-Request-Id"],
            _ => &["X-Request-Id", "RateLimit", "RateLimit-Policy"],
        };
        for name in common {
            response
                .headers
                .insert((*name).to_owned(), Header::default().into());
        }
        for (name, header) in &mut response.headers {
            *header = RefOr::Ref(Ref::new(format!("#/components/headers/{name}")));
        }
    }
}
