//! The body as it is documented; `link::members` of core reads it.

use linkledger_core::link::{
    Slug,
    members::{DESTINATION_URL, SLUG},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use crate::routes::body::sent_destination;

/// The body as it is documented.
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
