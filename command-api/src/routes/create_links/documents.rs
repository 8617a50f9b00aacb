//! The answers to a batch in the OpenAPI document.

use linkledger_core::problem::{Code, EXAMPLE_REQUEST_ID, Problem};
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::answer_body::{SET_AT_CREATION, SHORT_URL};
use crate::renderer::CreatedLink;

const EXAMPLE_BASE_URL: &str = "https://api.example.com";

/// Body of all answers to a batch.
pub(super) struct BatchResult;

impl PartialSchema for BatchResult {
    fn schema() -> RefOr<Schema> {
        let schema = json!({
            "type": "object",
            "required": ["items", "credits_charged", "credits_balance"],
            "properties": {
                "items": {
                    "type": "array",
                    "description": "Outcome of each item, in the order of the request.",
                    "items": { "$ref": "#/components/schemas/BatchOutcome" },
                },
                "credits_charged": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "Credits that this request has cost, or would cost; replays cost nothing.",
                },
                "credits_balance": {
                    "type": ["integer", "null"],
                    "format": "int64",
                    "minimum": 0,
                    "description": "Balance after the last decision on an item; null if no item was decided.",
                },
            },
        });
        serde_json::from_value(schema).expect("a schema")
    }
}

impl ToSchema for BatchResult {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((BatchOutcome::name().into_owned(), BatchOutcome::schema()));
        schemas.push((BatchLink::name().into_owned(), BatchLink::schema()));
    }
}

/// Outcome of an item of a batch: a link, or a problem.
struct BatchOutcome;

impl PartialSchema for BatchOutcome {
    fn schema() -> RefOr<Schema> {
        let schema = json!({
            "type": "object",
            "description": "Outcome of an item: a link with the status 201, a problem with every other status.",
            "required": ["status", "replayed"],
            "properties": {
                "status": {
                    "type": "integer",
                    "format": "int32",
                    "description": "201, or the status of the problem. After a 5xx or a 409 `idempotency_key_in_use`, send the item again with the same key.",
                },
                "replayed": {
                    "type": "boolean",
                    "description": "True if an earlier request with the same key created the link.",
                },
                "link": { "$ref": "#/components/schemas/BatchLink" },
                "problem": { "$ref": "#/components/schemas/Problem" },
            },
        });
        serde_json::from_value(schema).expect("a schema")
    }
}

impl ToSchema for BatchOutcome {}

/// The answer to the same create alone. Generators need one type for all modes, so what a link lacks after `dry_run` is
/// optional.
struct BatchLink;

impl PartialSchema for BatchLink {
    fn schema() -> RefOr<Schema> {
        let mut schema = CreatedLink::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let absent = [&SET_AT_CREATION[..], &[SHORT_URL]].concat();
            object
                .required
                .retain(|name| !absent.contains(&name.as_str()));
            object.description = Some(
                "The answer to the same create alone. After `dry_run`, a link that does not exist yet has no `id` and \
                 `created_at`, and without a chosen slug no `short_url`."
                    .to_owned(),
            );
        }
        schema
    }
}

impl ToSchema for BatchLink {}

impl BatchResult {
    /// Returns an example with a new link and an item that the credits do not suffice for.
    pub(super) fn example_of_partial() -> Value {
        let mut link = CreatedLink::example();
        link["credits_balance"] = 0.into();
        let problem = Problem::example_of(Code::InsufficientCredits);
        let problem = problem.to_body(EXAMPLE_BASE_URL, EXAMPLE_REQUEST_ID);
        json!({
            "items": [
                { "status": 201, "replayed": false, "link": link },
                { "status": 402, "replayed": false, "problem": problem },
            ],
            "credits_charged": 1,
            "credits_balance": 0,
        })
    }

    /// Returns an example with two new links.
    pub(super) fn example_of_atomic() -> Value {
        json!({
            "items": [
                { "status": 201, "replayed": false, "link": CreatedLink::example() },
                { "status": 201, "replayed": false, "link": {
                    "id": "lnk_01h455vb4pex5vsknk084sn02r",
                    "short_url": "https://sho.rt/k7m2xw9p",
                    "destination_url": "https://example.com/",
                    "created_at": "2026-11-20T09:51:00.123Z",
                    "credits_charged": 1,
                    "credits_balance": 998,
                } },
            ],
            "credits_charged": 2,
            "credits_balance": 998,
        })
    }

    /// Returns an example with two links that would be created.
    pub(super) fn example_of_dry_run() -> Value {
        let mut example = Self::example_of_atomic();
        let unknown = [
            &["id", "created_at"][..],
            &["id", "created_at", "short_url"],
        ];
        let items = example["items"].as_array_mut().into_iter().flatten();
        for (item, unknown) in items.zip(unknown) {
            if let Some(link) = item["link"].as_object_mut() {
                link.retain(|name, _| !unknown.contains(&name.as_str()));
            }
        }
        example
    }
}
