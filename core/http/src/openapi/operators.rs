//! Operations that owners and operators share: described once, at their handlers, for the public API.

use serde_json::json;
use utoipa::openapi::{
    OpenApi, RefOr, Schema,
    path::{Operation, Parameter, PathItem},
    security::SecurityRequirement,
};

use super::operations;
use crate::request::ADMIN_KEY_LENGTH_MAX;
use linkledger_core::{api_key::AdminScope, consistency};

/// Start of the paths of the public API, and that of the same paths of the admin API.
const PREFIXES: [&str; 2] = ["/v1/", "/admin/v1/"];

/// Returns the operations of the public API as those of the admin API, for keys with `reads` or `writes`.
pub fn for_operators(mut document: OpenApi, reads: AdminScope, writes: AdminScope) -> OpenApi {
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(path, item)| {
            let path = path.replacen(PREFIXES[0], PREFIXES[1], 1);
            (path, item_for_operators(item, reads, writes))
        })
        .collect();
    document
}

fn item_for_operators(mut item: PathItem, reads: AdminScope, writes: AdminScope) -> PathItem {
    for (is_read, operation) in [
        (true, &mut item.get),
        (false, &mut item.post),
        (false, &mut item.patch),
        (false, &mut item.delete),
    ] {
        let scope = if is_read { reads } else { writes };
        if let Some(operation) = operation {
            operation.security = Some(vec![SecurityRequirement::new("admin_key", [scope.name()])]);
        }
    }
    operations(&mut item).for_each(|operation| {
        adapt_headers(operation);
        remove_token_of_answers(operation);
    });
    item
}

/// Describes the headers as the admin API takes them. Operators read from the event store: a `Consistency-Token` has no
/// effect.
fn adapt_headers(operation: &mut Operation) {
    let Some(parameters) = &mut operation.parameters else {
        return;
    };
    let is_named = |parameter: &RefOr<Parameter>, name: &str| match parameter {
        RefOr::T(parameter) => parameter.name.eq_ignore_ascii_case(name),
        RefOr::Ref(_) => false,
    };
    parameters.retain(|parameter| !is_named(parameter, consistency::HEADER));
    for parameter in parameters {
        if is_named(parameter, "Idempotency-Key")
            && let RefOr::T(parameter) = parameter
        {
            parameter.schema = Some(idempotency_key());
            parameter.description = None;
        }
    }
}

/// Removes the header of the answers that a later read of the public API takes.
fn remove_token_of_answers(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            let is_token = |name: &String| name.eq_ignore_ascii_case(consistency::HEADER);
            response.headers.retain(|name, _| !is_token(name));
        }
    }
}

/// Returns the schema of the idempotency keys of operators.
fn idempotency_key() -> RefOr<Schema> {
    let schema = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": ADMIN_KEY_LENGTH_MAX,
        "pattern": "^[!-~]([ -~]*[!-~])?$",
        "examples": ["invoice-2026-11-4711"],
    });
    serde_json::from_value(schema).expect("a schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_owners_become_those_of_operators() {
        let document = json!({
            "openapi": "3.1.0",
            "info": { "title": "x", "version": "1" },
            "paths": { "/v1/webhooks": {
                "get": {
                    "parameters": [
                        { "name": "Consistency-Token", "in": "header", "required": false },
                        { "name": "limit", "in": "query", "required": false },
                    ],
                    "responses": {},
                    "security": [{ "api_key": ["link:webhooks.read"] }],
                },
                "post": { "responses": {}, "security": [{ "api_key": ["link:webhooks.write"] }] },
            } },
        });
        let document = serde_json::from_value(document).unwrap();
        let document = for_operators(document, AdminScope::Read, AdminScope::Webhooks);
        let document = serde_json::to_value(document).unwrap();
        let item = &document["paths"]["/admin/v1/webhooks"];
        let scope = |method: &str| item[method]["security"][0]["admin_key"][0].clone();
        assert_eq!(
            [scope("get"), scope("post")],
            ["admin:read", "admin:webhooks"]
        );
        let parameters = item["get"]["parameters"].as_array().unwrap();
        assert_eq!(parameters.len(), 1);
        assert_eq!(parameters[0]["name"], "limit");
    }
}
