//! Parses the members of a body that creates a link or changes its destination. Reports all errors
//! at once (`docs/api.md#links`, `docs/api.md#errors`).

use serde_json::Value;

use super::{Destination, OwnHosts, Slug};
use crate::{
    field::{ERRORS_MAX, FieldCode, FieldError},
    json::JsonObject,
};

/// Name of the member with the destination.
pub const DESTINATION_URL: &str = "destination_url";
/// Name of the member with the chosen slug.
pub const SLUG: &str = "slug";
/// Members of the body of a create.
pub const NEW_LINK: &[&str] = &[DESTINATION_URL, SLUG];
/// Members of a link that the service sets. They cannot be changed, like all members of
/// [`NEW_LINK`] except the destination.
const SET_BY_SERVICE: &[&str] = &["id", "short_url", "created_at"];
/// Start of the names of members that only the answer to a create has.
const CREDITS_PREFIX: &str = "credits_";

/// The link that a valid body requests.
#[derive(Debug, Clone)]
pub struct LinkDraft {
    /// Slug that the client chose, if any.
    pub slug: Option<Slug>,
    /// Destination of the link.
    pub destination: Destination,
}

impl LinkDraft {
    /// Returns a draft without optional members.
    pub const fn to(destination: Destination) -> Self {
        Self {
            slug: None,
            destination,
        }
    }
}

/// Parses the body of a create.
///
/// # Errors
/// Returns all errors, ordered by member: one for each missing, unknown or invalid member.
pub fn parse_new_link(
    object: &JsonObject,
    own_hosts: &OwnHosts,
) -> Result<LinkDraft, Vec<FieldError>> {
    let destination = match object.members().get(DESTINATION_URL) {
        None => Err(FieldCode::Required),
        Some(value) => text(value).and_then(|text| Destination::parse(text, own_hosts)),
    };
    let slug = optional(object, SLUG, Slug::parse);
    let mut errors: Vec<FieldError> = unknown(object).collect();
    let mut refuse = |name, code| errors.push(FieldError::of_member(name, code));
    let destination = destination.map_err(|code| refuse(DESTINATION_URL, code));
    let slug = slug.map_err(|code| refuse(SLUG, code));
    match (destination, slug) {
        (Ok(destination), Ok(slug)) if errors.is_empty() => Ok(LinkDraft { slug, destination }),
        _ => Err(sorted(errors)),
    }
}

/// Parses a merge patch (RFC 7396). Returns the new destination, if the patch has one.
///
/// # Errors
/// Returns all errors, ordered by member: one for each immutable, unknown or invalid member.
pub fn parse_patch(
    object: &JsonObject,
    own_hosts: &OwnHosts,
) -> Result<Option<Destination>, Vec<FieldError>> {
    let parse = |text: &str| Destination::parse(text, own_hosts);
    let destination = optional(object, DESTINATION_URL, parse);
    let error = |name: &String| {
        let is_immutable = NEW_LINK.contains(&name.as_str())
            || SET_BY_SERVICE.contains(&name.as_str())
            || name.starts_with(CREDITS_PREFIX);
        let code = match destination {
            Err(code) if name == DESTINATION_URL => code,
            Ok(_) | Err(_) if name == DESTINATION_URL => return None,
            Ok(_) | Err(_) if is_immutable => FieldCode::FieldNotMutable,
            Ok(_) | Err(_) => FieldCode::UnknownField,
        };
        Some(FieldError::of_member(name, code))
    };
    let errors: Vec<FieldError> = object.members().keys().filter_map(error).collect();
    match destination {
        Ok(destination) if errors.is_empty() => Ok(destination),
        Ok(_) | Err(_) => Err(sorted(errors)),
    }
}

/// Parses an optional member.
fn optional<T>(
    object: &JsonObject,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, FieldCode>,
) -> Result<Option<T>, FieldCode> {
    let value = object.members().get(name);
    value.map(|value| text(value).and_then(parse)).transpose()
}

/// Returns an error for each member that a create does not have.
fn unknown(object: &JsonObject) -> impl Iterator<Item = FieldError> {
    let names = object.members().keys();
    names
        .filter(|name| !NEW_LINK.contains(&name.as_str()))
        .map(|name| FieldError::of_member(name, FieldCode::UnknownField))
}

/// Returns the text of a member.
fn text(value: &Value) -> Result<&str, FieldCode> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Err(FieldCode::NullNotAllowed),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(FieldCode::WrongType)
        }
    }
}

/// Sorts the errors by member and keeps at most [`ERRORS_MAX`]. Drops errors of unknown members
/// first, then errors of immutable members.
fn sorted(mut errors: Vec<FieldError>) -> Vec<FieldError> {
    let priority = |error: &FieldError| {
        let is_unknown = error.code == FieldCode::UnknownField;
        (is_unknown, error.code == FieldCode::FieldNotMutable)
    };
    errors.sort_by_key(priority);
    errors.truncate(ERRORS_MAX);
    errors.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(body: &str) -> Vec<(String, &'static str)> {
        let object = JsonObject::parse(body.as_bytes()).unwrap();
        let errors = parse_new_link(&object, &OwnHosts::default())
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
    fn all_member_errors_are_reported() {
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
    fn errors_of_known_members_are_kept() {
        let object = |names: &dyn Fn(usize) -> String, rest: &str| {
            let many: Vec<String> = (0..1_500).map(|n| format!("\"{}\":1", names(n))).collect();
            JsonObject::parse(format!("{{{}{rest}}}", many.join(",")).as_bytes()).unwrap()
        };
        let own_hosts = OwnHosts::default();
        let body = object(&|n| format!("a{n}"), r#","slug":"x""#);
        let errors = parse_new_link(&body, &own_hosts).unwrap_err();
        assert_eq!(errors.len(), ERRORS_MAX);
        let known = [
            FieldError::of_member(DESTINATION_URL, FieldCode::Required),
            FieldError::of_member(SLUG, FieldCode::SlugTooShort),
        ];
        assert_eq!(errors[ERRORS_MAX - 2..], known);

        let body = object(&|n| format!("credits_{n}"), r#","destination_url":null"#);
        let errors = parse_patch(&body, &own_hosts).unwrap_err();
        assert_eq!(errors.len(), ERRORS_MAX);
        let last = FieldError::of_member(DESTINATION_URL, FieldCode::NullNotAllowed);
        assert_eq!(errors[ERRORS_MAX - 1], last);
    }

    #[test]
    fn wrong_type_differs_from_null() {
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

    fn patch(body: &str) -> Result<Option<String>, Vec<(String, &'static str)>> {
        let object = JsonObject::parse(body.as_bytes()).unwrap();
        let shown = |error: FieldError| (error.pointer, error.code.as_str());
        parse_patch(&object, &OwnHosts::default())
            .map(|destination| destination.map(|it| it.as_str().to_owned()))
            .map_err(|errors| errors.into_iter().map(shown).collect())
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        assert_eq!(patch("{}"), Ok(None));
    }

    #[test]
    fn a_destination_is_kept_in_its_serialised_form() {
        let patched = patch(r#"{"destination_url":"HTTPS://example.com"}"#);
        assert_eq!(patched, Ok(Some("https://example.com/".to_owned())));
    }

    #[test]
    fn immutable_member_differs_from_unknown_member() {
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
        assert_eq!(patch(body), Err(expected.to_vec()));
    }
}
