//! The body in the OpenAPI document; `link::members` of core parses the body.

use linkledger_core::link::{
    Slug,
    members::{DESTINATION_URL, SLUG},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use crate::routes::body::sent_destination;

/// The body in the OpenAPI document.
pub(super) struct NewLink;

impl PartialSchema for NewLink {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property(DESTINATION_URL, sent_destination())
            .required(DESTINATION_URL)
            .property(SLUG, Slug::schema())
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .into()
    }
}

impl ToSchema for NewLink {}
