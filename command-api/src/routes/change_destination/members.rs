//! The body as it is documented; `link::members` of core reads it.

use linkledger_core::link::members::DESTINATION_URL;
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use crate::routes::body::sent_destination;

/// The patch as it is documented.
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
