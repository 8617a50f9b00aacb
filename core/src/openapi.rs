//! Shared parts of both services' OpenAPI documents. Each operation is described at its handler;
//! this module adds problems, headers and the security scheme of the API key.

mod headers;
mod problems;
mod schemas;

pub use schemas::{ShortUrl, Timestamp};

use utoipa::openapi::{
    Components, Header, Info, License, OpenApi, Ref, RefOr, Server, Tag,
    path::{Operation, PathItem},
    security::{Http, HttpAuthScheme, SecurityScheme},
};

use crate::problem::Code;

/// Base address in examples.
const EXAMPLE_BASE_URL: &str = "https://api.example.com";

/// Name of the security scheme; an operation's `security` lists it with the required scope.
const API_KEY: &str = "api_key";

/// Problems that every operation may answer with.
const COMMON_PROBLEMS: [Code; 15] = [
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
    document.info = info();
    document.servers = Some(vec![Server::new("/")]);
    document.tags = Some(vec![
        Tag::builder()
            .name("links")
            .description(Some(
                "Short links of the account that the API key belongs to.",
            ))
            .build(),
        Tag::builder()
            .name("credits")
            .description(Some("Balance and ledger of the account."))
            .build(),
    ]);
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
    add_components(document.components.get_or_insert_default());
    document
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
            // The account, whose requests are counted, is unknown in a 401.
            "401" => &["X-Request-Id"],
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

fn add_components(components: &mut Components) {
    let scheme = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("llk_…")
        .description(Some(
            "An API key: `llk_` and 36 letters and digits. Keys are issued by the operator of the \
             service; each operation names the scope that its key must have.",
        ))
        .build();
    components.add_security_scheme(API_KEY, SecurityScheme::Http(scheme));
    components.headers.extend(headers::all());
    components.schemas.extend(problems::schemas());
    components.examples.extend(problems::examples());
}

fn info() -> Info {
    let license = License::builder()
        .name("Apache License 2.0")
        .identifier(Some("Apache-2.0"))
        .build();
    Info::builder()
        .title("linkledger")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(include_str!("openapi/introduction.md")))
        .license(Some(license))
        .build()
}
