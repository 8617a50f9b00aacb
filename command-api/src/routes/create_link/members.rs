//! The members of the body: all that is wrong with them at once.

use linkledger_core::{
    batch::LinkDraft,
    field::{FieldCode, FieldError},
    json::JsonObject,
    link::{Destination, OwnHosts, Slug},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use crate::routes::body::{DESTINATION_URL, sorted, text};

const SLUG: &str = "slug";

/// The body as it is documented.
pub(super) struct NewLink;

impl PartialSchema for NewLink {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property(DESTINATION_URL, Destination::schema())
            .required(DESTINATION_URL)
            .property(SLUG, Slug::schema())
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .into()
    }
}

impl ToSchema for NewLink {}

/// The link that the body asks for, or every rule that it breaks, ordered by member.
pub(super) fn parse(
    object: &JsonObject,
    own_hosts: &OwnHosts,
) -> Result<LinkDraft, Vec<FieldError>> {
    let members = object.members();
    let destination = match members.get(DESTINATION_URL) {
        None => Err(FieldCode::Required),
        Some(value) => text(value).and_then(|text| Destination::parse(text, own_hosts)),
    };
    let slug = members
        .get(SLUG)
        .map(|value| text(value).and_then(Slug::parse))
        .transpose();
    let is_known = |name: &str| name == DESTINATION_URL || name == SLUG;
    let unknown = members.keys().filter(|name| !is_known(name));
    let errors = unknown
        .map(|name| FieldError::of_member(name, FieldCode::UnknownField))
        .chain(
            destination
                .as_ref()
                .err()
                .map(|code| FieldError::of_member(DESTINATION_URL, *code)),
        )
        .chain(
            slug.as_ref()
                .err()
                .map(|code| FieldError::of_member(SLUG, *code)),
        );
    let errors = sorted(errors);
    match (destination, slug) {
        (Ok(destination), Ok(slug)) if errors.is_empty() => Ok(LinkDraft { slug, destination }),
        _ => Err(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(body: &str) -> Vec<(String, &'static str)> {
        let object = JsonObject::parse(body.as_bytes()).unwrap();
        let errors = parse(&object, &OwnHosts::default())
            .err()
            .unwrap_or_default();
        errors
            .into_iter()
            .map(|error| (error.pointer, error.code.as_str()))
            .collect()
    }

    #[test]
    fn a_slug_is_optional_and_a_destination_is_not() {
        assert_eq!(errors(r#"{"destination_url":"https://example.com"}"#), []);
        assert_eq!(errors("{}"), [("#/destination_url".to_owned(), "required")]);
    }

    #[test]
    fn all_errors_are_told_at_once() {
        let body = r#"{"destination_url":"ftp://x","slug":"a b","Slug":"x","id":null}"#;
        let expected = [
            ("#/Slug", "unknown_field"),
            ("#/destination_url", "url_scheme_not_allowed"),
            ("#/id", "unknown_field"),
            ("#/slug", "slug_invalid_character"),
        ];
        assert_eq!(
            errors(body),
            expected.map(|(pointer, code)| (pointer.to_owned(), code))
        );
    }

    #[test]
    fn other_types_are_told_apart_from_null() {
        let body = r#"{"destination_url":["https://example.com"],"slug":null}"#;
        let expected = [
            ("#/destination_url", "wrong_type"),
            ("#/slug", "null_not_allowed"),
        ];
        assert_eq!(
            errors(body),
            expected.map(|(pointer, code)| (pointer.to_owned(), code))
        );
    }
}
