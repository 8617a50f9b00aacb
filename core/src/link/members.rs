//! Parses the members of a body that creates or changes a link. Reports all errors at once
//! (`docs/api.md#links`, `docs/api.md#errors`).

use serde_json::Value;

use super::{
    Destination, DetailsPatch, Expiry, LinkDetails, OwnHosts, Slug, Tags, ValueUpdate,
    details::{TAGS_MAX, parse_external_id, parse_tag, parse_title},
};
use crate::{
    field::{ERRORS_MAX, FieldCode, FieldError},
    json::JsonObject,
};

/// Name of the member with the destination.
pub const DESTINATION_URL: &str = "destination_url";
/// Name of the member with the chosen slug.
pub const SLUG: &str = "slug";
/// Name of the member with the title.
pub const TITLE: &str = "title";
/// Name of the member with the id in the owner's system.
pub const EXTERNAL_ID: &str = "external_id";
/// Name of the member with the tags.
pub const TAGS: &str = "tags";
/// Name of the member with the expiry.
pub const EXPIRES_AT: &str = "expires_at";
/// Name of the member with the destination after the expiry.
pub const EXPIRED_URL: &str = "expired_url";
/// Name of the member that takes a link out of service.
pub const DISABLED: &str = "disabled";
/// Name of the member with the role that disabled the link.
pub const DISABLED_BY: &str = "disabled_by";
/// Members of the body of a create.
pub const NEW_LINK: &[&str] = &[
    DESTINATION_URL,
    SLUG,
    TITLE,
    EXTERNAL_ID,
    TAGS,
    EXPIRES_AT,
    EXPIRED_URL,
];
/// Members of a link that never change.
const IMMUTABLE: &[&str] = &[SLUG, "id", "short_url", "created_at", DISABLED_BY];
/// Start of the names of members that only the answer to a create has.
const CREDITS_PREFIX: &str = "credits_";

/// The link that a valid body requests.
#[derive(Debug, Clone)]
pub struct LinkDraft {
    /// Slug that the client chose, if any.
    pub slug: Option<Slug>,
    /// Destination of the link.
    pub destination: Destination,
    /// Details of the link. Their expiry may be in the past: the decision compares it with its time.
    pub details: LinkDetails,
}

/// The change that a valid merge patch requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkPatch {
    /// New destination; `None` keeps the current one.
    pub destination: Option<Destination>,
    /// New details.
    pub details: DetailsPatch,
    /// True if the owner disables the link, false if the owner enables it; `None` keeps both.
    pub disabled: Option<bool>,
}

impl LinkDraft {
    /// Returns a draft without optional members.
    pub const fn to(destination: Destination) -> Self {
        Self {
            slug: None,
            destination,
            details: LinkDetails::NONE,
        }
    }
}

/// Parses the body of a create.
///
/// # Errors
/// Returns all errors, ordered by member: one for each missing, unknown or invalid member and for
/// each invalid tag.
pub fn parse_new_link(
    object: &JsonObject,
    own_hosts: &OwnHosts,
) -> Result<LinkDraft, Vec<FieldError>> {
    let mut members = Members::of(object, NullMember::NotAllowed);
    let destination = members.set(DESTINATION_URL, |text| Destination::parse(text, own_hosts));
    let slug = members.set(SLUG, Slug::parse);
    let details = members.details(own_hosts);
    if !members.has(DESTINATION_URL) {
        members.refuse(DESTINATION_URL, FieldCode::Required);
    }
    if members.has(EXPIRED_URL) && !members.has(EXPIRES_AT) {
        members.refuse(EXPIRED_URL, FieldCode::ExpiredUrlWithoutExpiresAt);
    }
    members.refuse_others(|name| (!NEW_LINK.contains(&name)).then_some(FieldCode::UnknownField));
    match (destination, members.finish()) {
        (Some(destination), Ok(())) => Ok(LinkDraft {
            slug,
            destination,
            details: details.apply_to(&LinkDetails::NONE),
        }),
        (_, Err(errors)) => Err(errors),
        (None, Ok(())) => Err(vec![FieldError::of_member(
            DESTINATION_URL,
            FieldCode::Required,
        )]),
    }
}

/// Parses a merge patch (RFC 7396).
///
/// # Errors
/// Returns all errors, ordered by member: one for each immutable, unknown or invalid member and for
/// each invalid tag.
pub fn parse_patch(
    object: &JsonObject,
    own_hosts: &OwnHosts,
) -> Result<LinkPatch, Vec<FieldError>> {
    let mut members = Members::of(object, NullMember::Removes);
    let destination = members.set(DESTINATION_URL, |text| Destination::parse(text, own_hosts));
    let details = members.details(own_hosts);
    let disabled = members.disabled();
    members.refuse_others(|name| {
        if IMMUTABLE.contains(&name) || name.starts_with(CREDITS_PREFIX) {
            return Some(FieldCode::FieldNotMutable);
        }
        let is_known = NEW_LINK.contains(&name) || name == DISABLED;
        (!is_known).then_some(FieldCode::UnknownField)
    });
    members.finish()?;
    Ok(LinkPatch {
        destination,
        details,
        disabled,
    })
}

/// Meaning of `null` as the value of a detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NullMember {
    /// `null` is an error.
    NotAllowed,
    /// `null` removes the detail.
    Removes,
}

/// Members of a body while they are parsed, and their errors so far.
struct Members<'a> {
    object: &'a JsonObject,
    null: NullMember,
    errors: Vec<FieldError>,
}

impl<'a> Members<'a> {
    const fn of(object: &'a JsonObject, null: NullMember) -> Self {
        Self {
            object,
            null,
            errors: Vec::new(),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.object.members().contains_key(name)
    }

    fn refuse(&mut self, name: &str, code: FieldCode) {
        self.errors.push(FieldError::of_member(name, code));
    }

    /// Refuses the members for whose names `code` returns a code.
    fn refuse_others(&mut self, code: impl Fn(&str) -> Option<FieldCode>) {
        for name in self.object.members().keys() {
            if let Some(code) = code(name) {
                self.refuse(name, code);
            }
        }
    }

    /// Parses a text member that cannot be removed. Returns `None` if the member is missing or
    /// invalid.
    fn set<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, FieldCode>,
    ) -> Option<T> {
        let value = self.object.members().get(name)?;
        let parsed = text(value).and_then(parse);
        parsed.map_err(|code| self.refuse(name, code)).ok()
    }

    /// Parses a text member that may be removed. Keeps the value if the member is missing or invalid.
    fn detail<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, FieldCode>,
    ) -> ValueUpdate<T> {
        if self.is_removed(name) {
            return ValueUpdate::Remove;
        }
        self.set(name, parse)
            .map_or(ValueUpdate::Keep, ValueUpdate::Set)
    }

    fn is_removed(&self, name: &str) -> bool {
        let value = self.object.members().get(name);
        self.null == NullMember::Removes && value.is_some_and(Value::is_null)
    }

    /// Parses the switch of the service. `null` is the absence of the member in a link: not disabled.
    fn disabled(&mut self) -> Option<bool> {
        match self.object.members().get(DISABLED)? {
            Value::Bool(is_disabled) => Some(*is_disabled),
            Value::Null => Some(false),
            Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                self.refuse(DISABLED, FieldCode::WrongType);
                None
            }
        }
    }

    fn details(&mut self, own_hosts: &OwnHosts) -> DetailsPatch {
        DetailsPatch {
            title: self.detail(TITLE, parse_title),
            external_id: self.detail(EXTERNAL_ID, parse_external_id),
            tags: self.tags(),
            expires_at: self.detail(EXPIRES_AT, Expiry::parse),
            expired_url: self.detail(EXPIRED_URL, |text| Destination::parse(text, own_hosts)),
        }
    }

    fn tags(&mut self) -> ValueUpdate<Tags> {
        if self.is_removed(TAGS) {
            return ValueUpdate::Remove;
        }
        let Some(value) = self.object.members().get(TAGS) else {
            return ValueUpdate::Keep;
        };
        let code = match value {
            Value::Array(tags) if tags.len() > TAGS_MAX => FieldCode::TooManyTags,
            Value::Array(tags) => {
                let tags: Vec<String> = tags
                    .iter()
                    .enumerate()
                    .filter_map(|(index, tag)| self.tag(index, tag, &tags[..index]))
                    .collect();
                return ValueUpdate::to(Tags::of(tags));
            }
            Value::Null => FieldCode::NullNotAllowed,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                FieldCode::WrongType
            }
        };
        self.refuse(TAGS, code);
        ValueUpdate::Keep
    }

    /// Parses a tag. Returns `None` if the tag is invalid or one of the tags before.
    fn tag(&mut self, index: usize, tag: &Value, before: &[Value]) -> Option<String> {
        let parsed = text(tag).and_then(parse_tag);
        let parsed = parsed.and_then(|parsed| {
            let is_first = !before.contains(tag);
            is_first.then_some(parsed).ok_or(FieldCode::TagDuplicate)
        });
        let refuse = |code| self.errors.push(FieldError::of_element(TAGS, index, code));
        parsed.map_err(refuse).ok()
    }

    fn finish(self) -> Result<(), Vec<FieldError>> {
        if self.errors.is_empty() {
            return Ok(());
        }
        Err(sorted(self.errors))
    }
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
            .map(|patch| patch.destination.map(|it| it.as_str().to_owned()))
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
            "credits_balance":1,"credits_":1,"Slug":"x","destination_url":null,"notes":"x"}"#;
        let expected = [
            ("#/Slug", "unknown_field"),
            ("#/created_at", "field_not_mutable"),
            ("#/credits_", "field_not_mutable"),
            ("#/credits_balance", "field_not_mutable"),
            ("#/credits_charged", "field_not_mutable"),
            ("#/destination_url", "null_not_allowed"),
            ("#/id", "field_not_mutable"),
            ("#/notes", "unknown_field"),
            ("#/short_url", "field_not_mutable"),
            ("#/slug", "field_not_mutable"),
        ];
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        assert_eq!(patch(body), Err(expected.to_vec()));
    }

    /// Values of a detail that a create refuses, with the pointer and the code of the error.
    const REFUSED: &[(&str, &str, &str)] = &[
        (r#""title":"""#, "#/title", "title_invalid"),
        (r#""title":"a\u0000b""#, "#/title", "title_invalid"),
        (r#""title":"a\u0085b""#, "#/title", "title_invalid"),
        (r#""title":null"#, "#/title", "null_not_allowed"),
        (r#""title":["a"]"#, "#/title", "wrong_type"),
        (
            r#""external_id":"""#,
            "#/external_id",
            "external_id_invalid",
        ),
        (
            r#""external_id":"a b""#,
            "#/external_id",
            "external_id_invalid",
        ),
        (
            r#""external_id":"\u00e4""#,
            "#/external_id",
            "external_id_invalid",
        ),
        (r#""external_id":7"#, "#/external_id", "wrong_type"),
        (r#""tags":"a""#, "#/tags", "wrong_type"),
        (r#""tags":null"#, "#/tags", "null_not_allowed"),
        (r#""tags":["A"]"#, "#/tags/0", "tag_invalid"),
        (r#""tags":["a",""]"#, "#/tags/1", "tag_invalid"),
        (r#""tags":["-a"]"#, "#/tags/0", "tag_invalid"),
        (r#""tags":["a","b","a"]"#, "#/tags/2", "tag_duplicate"),
        (r#""tags":[1]"#, "#/tags/0", "wrong_type"),
        (
            r#""expires_at":"2099-01-01""#,
            "#/expires_at",
            "expires_at_invalid",
        ),
        (
            r#""expires_at":"2099-01-01T00:00:00""#,
            "#/expires_at",
            "expires_at_invalid",
        ),
        (r#""expires_at":4102444800"#, "#/expires_at", "wrong_type"),
    ];

    fn with_detail(detail: &str) -> String {
        format!(r#"{{"destination_url":"https://example.com",{detail}}}"#)
    }

    #[test]
    fn invalid_detail_is_reported_by_its_pointer() {
        for (detail, pointer, code) in REFUSED {
            let expected = [((*pointer).to_owned(), *code)];
            assert_eq!(errors(&with_detail(detail)), expected, "{detail}");
        }
        let many: Vec<String> = (0..=TAGS_MAX).map(|tag| format!("\"{tag}\"")).collect();
        let many = with_detail(&format!(r#""tags":[{}]"#, many.join(",")));
        assert_eq!(errors(&many), [("#/tags".to_owned(), "too_many_tags")]);
        let alone = with_detail(r#""expired_url":"https://example.com""#);
        let code = "expired_url_without_expires_at";
        assert_eq!(errors(&alone), [("#/expired_url".to_owned(), code)]);
    }

    #[test]
    fn longest_details_are_kept_byte_for_byte() {
        let title = "\u{1f600}".repeat(200);
        let body = with_detail(&format!(r#""title":"{title}","tags":[]"#));
        let object = JsonObject::parse(body.as_bytes()).unwrap();
        let details = parse_new_link(&object, &OwnHosts::default())
            .unwrap()
            .details;
        assert_eq!(details.title.as_deref(), Some(&*title));
        assert_eq!(details.tags, None);
        for (name, longest) in [("title", 200), ("external_id", 128)] {
            let of = |length: usize| with_detail(&format!(r#""{name}":"{}""#, "a".repeat(length)));
            assert_eq!(errors(&of(longest)), []);
            assert_eq!(errors(&of(longest + 1)).len(), 1);
        }
    }
}
