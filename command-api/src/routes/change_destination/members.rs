//! The members of a merge patch (RFC 7396): all that is wrong with them at once.

use linkledger_core::{
    field::{FieldCode, FieldError},
    json::JsonObject,
    link::{Destination, OwnHosts},
};
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::AdditionalProperties},
};

use crate::routes::body::{DESTINATION_URL, sorted, text};

/// Members of a link that never change, and those of the answer to its creation.
const IMMUTABLE: &[&str] = &["id", "slug", "short_url", "created_at"];
const CREDITS_PREFIX: &str = "credits_";

/// The patch as it is documented.
pub(super) struct LinkPatch;

impl PartialSchema for LinkPatch {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property(DESTINATION_URL, Destination::schema())
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

/// The new destination, if the patch has one, or every rule that it breaks.
pub(super) fn parse(
    object: &JsonObject,
    own_hosts: &OwnHosts,
) -> Result<Option<Destination>, Vec<FieldError>> {
    let members = object.members();
    let destination = members
        .get(DESTINATION_URL)
        .map(|value| text(value).and_then(|text| Destination::parse(text, own_hosts)))
        .transpose();
    let error = |name: &String| {
        let is_immutable = IMMUTABLE.contains(&name.as_str()) || name.starts_with(CREDITS_PREFIX);
        let code = match destination {
            Err(code) if name == DESTINATION_URL => code,
            Ok(_) | Err(_) if name == DESTINATION_URL => return None,
            Ok(_) | Err(_) if is_immutable => FieldCode::FieldNotMutable,
            Ok(_) | Err(_) => FieldCode::UnknownField,
        };
        Some(FieldError::of_member(name, code))
    };
    let errors = sorted(members.keys().filter_map(error));
    match destination {
        Ok(destination) if errors.is_empty() => Ok(destination),
        Ok(_) | Err(_) => Err(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(body: &str) -> Result<Option<String>, Vec<(String, &'static str)>> {
        let object = JsonObject::parse(body.as_bytes()).unwrap();
        let shown = |error: FieldError| (error.pointer, error.code.as_str());
        parse(&object, &OwnHosts::default())
            .map(|destination| destination.map(|it| it.as_str().to_owned()))
            .map_err(|errors| errors.into_iter().map(shown).collect())
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        assert_eq!(parse_text("{}"), Ok(None));
    }

    #[test]
    fn a_destination_is_kept_in_its_serialised_form() {
        let patched = parse_text(r#"{"destination_url":"HTTPS://example.com"}"#);
        assert_eq!(patched, Ok(Some("https://example.com/".to_owned())));
    }

    #[test]
    fn what_never_changes_is_told_apart_from_what_is_unknown() {
        let body = r#"{"id":null,"slug":"x","short_url":1,"created_at":"","credits_charged":1,
            "credits_balance":1,"credits_":1,"Slug":"x","destination_url":null,"title":"x"}"#;
        let expected = [
            ("#/Slug", "unknown_field"),
            ("#/created_at", "field_not_mutable"),
            ("#/credits_", "field_not_mutable"),
            ("#/credits_balance", "field_not_mutable"),
            ("#/credits_charged", "field_not_mutable"),
            ("#/destination_url", "null_not_allowed"),
            ("#/id", "field_not_mutable"),
            ("#/short_url", "field_not_mutable"),
            ("#/slug", "field_not_mutable"),
            ("#/title", "unknown_field"),
        ];
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        assert_eq!(parse_text(body), Err(expected.to_vec()));
    }
}
