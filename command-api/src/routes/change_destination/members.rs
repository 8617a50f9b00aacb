//! The body in the OpenAPI document; `link::members` of core parses the body.

use linkledger_core::link::members::DESTINATION_URL;
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use crate::routes::body::sent_destination;

/// The patch in the OpenAPI document.
pub(super) struct LinkPatch;

impl PartialSchema for LinkPatch {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property(DESTINATION_URL, sent_destination())
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .into()
    }
}

impl ToSchema for LinkPatch {}

impl LinkPatch {
    pub(super) fn example() -> Value {
        json!({ DESTINATION_URL: "https://example.com/offers?season=summer" })
    }
}
