//! Shared parts of the OpenAPI documents of the services: of the public API and of the admin API. Each operation is
//! described at its handler; `openapi/shared.json` has the schema of problems and the headers of both APIs,
//! `openapi/public.json` and `openapi/admin.json` the security scheme and the headers of one API; this module adds the
//! problems of each operation.

mod answers;
mod operators;
mod problems;
pub mod request_body;

pub use operators::for_operators;

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

/// Problems that every operation of both APIs may answer with.
const COMMON_PROBLEMS: [Code; 14] = [
    Code::InvalidHeader,
    Code::InvalidParameter,
    Code::AuthenticationRequired,
    Code::ApiKeyInvalid,
    Code::ApiKeyExpired,
    Code::ApiKeyRevoked,
    Code::InsufficientScope,
    Code::NotAcceptable,
    Code::UriTooLong,
    Code::HostNotServed,
    Code::HeadersTooLarge,
    Code::InternalError,
    Code::Overloaded,
    Code::StorageUnavailable,
];

/// Parts of a document that depend on the API.
struct Api {
    /// Title, tags, headers and security scheme, as JSON.
    parts: &'static str,
    introduction: &'static str,
    /// Problems that every operation may answer with, beyond the common ones.
    problems: &'static [Code],
    /// Headers of every answer that rests on an authenticated request, besides `X-Request-Id`.
    headers: &'static [&'static str],
}

const PUBLIC: Api = Api {
    parts: include_str!("openapi/public.json"),
    introduction: include_str!("openapi/introduction.md"),
    problems: &[Code::AccountSuspended, Code::RateLimited],
    headers: &["RateLimit", "RateLimit-Policy"],
};

const ADMIN: Api = Api {
    parts: include_str!("openapi/admin.json"),
    introduction: include_str!("openapi/admin_introduction.md"),
    problems: &[],
    headers: &[],
};

/// Completes a service's document of the public API. `problems` lists, for each operation, its problems beyond the
/// common ones.
///
/// # Panics
/// Panics if `problems` lacks an operation.
pub fn complete(document: OpenApi, problems: &[(&str, &[Code])]) -> OpenApi {
    PUBLIC.complete(document, problems)
}

/// Completes a service's document of the admin API, as [`complete`] does for the public API.
///
/// # Panics
/// Panics if `problems` lacks an operation.
pub fn complete_admin(document: OpenApi, problems: &[(&str, &[Code])]) -> OpenApi {
    ADMIN.complete(document, problems)
}

impl Api {
    fn complete(&self, mut document: OpenApi, problems: &[(&str, &[Code])]) -> OpenApi {
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                let id = operation.operation_id.clone().unwrap_or_default();
                let (_, own) = problems
                    .iter()
                    .find(|(operation_id, _)| *operation_id == id)
                    .unwrap_or_else(|| panic!("the problems of {id} are listed"));
                self.complete_operation(operation, own);
            }
        }
        let mut document = self.shared_parts().merge_from(document);
        answers::loosen(&mut document);
        document
    }

    /// Returns a document with the parts that all operations share, and without operations.
    fn shared_parts(&self) -> OpenApi {
        let shared = include_str!("openapi/shared.json");
        let mut shared: Value = serde_json::from_str(shared).expect("the file is JSON");
        let parts: Value = serde_json::from_str(self.parts).expect("the file is JSON");
        shared["info"]["title"] = parts["title"].clone();
        shared["info"]["version"] = json!(env!("CARGO_PKG_VERSION"));
        shared["info"]["description"] = json!(self.introduction);
        shared["tags"] = parts["tags"].clone();
        let components = &mut shared["components"];
        components["securitySchemes"] = parts["securitySchemes"].clone();
        for (name, header) in parts["headers"].as_object().into_iter().flatten() {
            components["headers"][name] = header.clone();
        }
        components["examples"] = problems::examples();
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        components["schemas"]["Problem"]["properties"]["code"]["x-extensible-enum"] = json!(codes);
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

    fn complete_operation(&self, operation: &mut Operation, own_problems: &[Code]) {
        let codes = [&COMMON_PROBLEMS, self.problems, own_problems].concat();
        let responses = &mut operation.responses.responses;
        responses.extend(problems::responses(&codes));
        for (status, response) in responses {
            let RefOr::T(response) = response else {
                continue;
            };
            let common: &[&str] = match status.as_str() {
                // The account, whose requests are counted, is unknown then.
                "401" | "421" => &[],
                _ => self.headers,
            };
            for name in [&["X-Request-Id"], common].concat() {
                response
                    .headers
                    .insert(name.to_owned(), Header::default().into());
            }
            for (name, header) in &mut response.headers {
                *header = RefOr::Ref(Ref::new(format!("#/components/headers/{name}")));
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.patch,
        &mut item.delete,
    ]
    .into_iter()
    .flatten()
}
