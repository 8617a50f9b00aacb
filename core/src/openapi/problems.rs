//! Problems in the document: one schema, an example for each code, and the possible codes of each
//! operation and status.

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::openapi::{
    AllOf, ContentBuilder, Header, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Schema,
    Type,
    example::{Example, ExampleBuilder},
};

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
        .map(|(status, codes)| (status.to_string(), response(status, &codes).into()))
        .collect()
}

fn response(status: u16, codes: &[Code]) -> Response {
    let names = || codes.iter().map(|code| code.as_str());
    let titles: Vec<String> = codes
        .iter()
        .map(|code| format!("`{}`: {}", code.as_str(), code.meaning()))
        .collect();
    let status = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .enum_values(Some([status]));
    let code = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(names()));
    let one_of_these = ObjectBuilder::new()
        .property("status", status)
        .property("code", code)
        .build();
    let schema = AllOf::builder()
        .item(Ref::from_schema_name("Problem"))
        .item(one_of_these)
        .build();
    let content = ContentBuilder::new()
        .schema(Some(Schema::AllOf(schema)))
        .examples_from_iter(names().map(|name| {
            let reference = Ref::new(format!("#/components/examples/{name}"));
            (name, RefOr::<Example>::Ref(reference))
        }))
        .build();
    let mut response = ResponseBuilder::new()
        .description(titles.join("\n\n"))
        .content("application/problem+json", content);
    for name in headers(codes) {
        response = response.header(name, Header::default());
    }
    response.build()
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

/// Returns the schema of all problems.
pub(super) fn schemas() -> BTreeMap<String, RefOr<Schema>> {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let schema = json!({
        "type": "object",
        "description": "Problem details (RFC 9457).",
        "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
        "properties": {
            "type": {
                "type": "string", "format": "uri",
                "description": "Address of a page about the code.",
            },
            "title": { "type": "string", "description": "Title of the code, the same for every occurrence." },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string", "description": "Explanation of this occurrence and its remedy, for people." },
            "instance": { "type": "string", "format": "uri", "description": "Identifier of this occurrence." },
            "code": { "type": "string", "enum": codes, "description": "Stable code of the problem, for programs." },
            "request_id": { "type": "string", "description": "Id of the request, as in `X-Request-Id`." },
            "errors": {
                "type": "array",
                "description": "All errors in the request's fields, parameters or headers.",
                "items": {
                    "type": "object",
                    "required": ["code", "detail"],
                    "properties": {
                        "pointer": { "type": "string", "description": "Invalid member of the body, as a JSON pointer in a fragment (RFC 6901)." },
                        "parameter": { "type": "string", "description": "Invalid query parameter." },
                        "header": { "type": "string", "description": "Invalid header." },
                        "code": { "type": "string" },
                        "detail": { "type": "string" },
                    },
                },
            },
            "balance": { "type": "integer", "minimum": 0, "description": "For `insufficient_credits`: current balance, in credits." },
            "required": { "type": "integer", "minimum": 0, "description": "For `insufficient_credits`: price, in credits." },
            "required_scopes": { "type": "array", "items": { "type": "string" }, "description": "For `insufficient_scope`: scopes that the API key needs." },
            "minimum": { "type": "integer", "description": "For `invalid_parameter`: smallest valid value." },
            "maximum": { "type": "integer", "description": "For `invalid_parameter`: greatest valid value." },
            "may_have_succeeded": { "type": "boolean", "description": "For `deadline_exceeded`: true if the request may have had its effect." },
        },
    });
    let schema = serde_json::from_value(schema).expect("a schema");
    BTreeMap::from([("Problem".to_owned(), schema)])
}

/// Returns an example problem of each code.
pub(super) fn examples() -> BTreeMap<String, RefOr<Example>> {
    let example = |code: Code| {
        let value = Problem::example_of(code).to_body(EXAMPLE_BASE_URL, EXAMPLE_REQUEST_ID);
        let example = ExampleBuilder::new()
            .summary(code.title())
            .value(Some(value));
        (code.as_str().to_owned(), example.build().into())
    };
    Code::ALL.iter().copied().map(example).collect()
}
