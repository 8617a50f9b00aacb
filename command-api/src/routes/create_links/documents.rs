//! The answers to a batch in the OpenAPI document.

use linkledger_http::problem::{Code, EXAMPLE_REQUEST_ID, Problem};
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Ref, RefOr, Schema},
};

use super::answer_body::{SET_AT_CREATION, SHORT_URL};
use crate::renderer::CreatedLink;

const EXAMPLE_BASE_URL: &str = "https://api.example.com";

/// Returns the schema of a problem, which `openapi/shared.json` has.
pub(super) fn problem_reference() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name("Problem"))
}

/// The answer to the same create alone. Generators need one type for all modes, so what a link lacks after `dry_run` is
/// optional.
pub(super) struct BatchLink;

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
    let mut example = example_of_atomic();
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
