//! Schemas of the bodies of requests to the admin API.

use linkledger_core::field::TEXT_LENGTH_MAX;
use utoipa::openapi::{
    ObjectBuilder, RefOr, Schema,
    schema::{AdditionalProperties, Type},
};

use crate::problem::Code;

/// Problems of operations with a body.
pub const PROBLEMS: &[Code] = &[
    Code::MalformedJson,
    Code::BodyNotObject,
    Code::ContentTooLarge,
    Code::UnsupportedMediaType,
    Code::UnsupportedContentEncoding,
    Code::ValidationFailed,
    Code::DeadlineExceeded,
];

/// Returns the schema of a body: an object with these members and no others.
pub fn body(members: &[(&str, RefOr<Schema>)], required: &[&str]) -> RefOr<Schema> {
    let object =
        ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    let object = members.iter().fold(object, |object, (name, schema)| {
        object.property(*name, schema.clone())
    });
    let object = required
        .iter()
        .fold(object, |object, name| object.required(*name));
    object.into()
}

/// Returns the schema of a text.
pub fn text(description: &str, example: &str) -> RefOr<Schema> {
    let description = format!("{description}: one line without spaces at its ends.");
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .min_length(Some(1))
        .max_length(Some(TEXT_LENGTH_MAX))
        .examples([example]);
    text.into()
}

/// Returns the schema of a reason.
pub fn reason(example: &str) -> RefOr<Schema> {
    text("Reason, which only operators see", example)
}
