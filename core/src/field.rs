//! Errors of one field of a request body (`docs/api.md#errors`).

use std::fmt::{self, Write as _};

use crate::listed::listed;

/// Name of a code, and advice for people.
type FieldCodeRow = (&'static str, &'static str);

listed! {
    /// Stable code of a field error. A code is never renamed or given another meaning.
    pub enum FieldCode: FieldCodeRow {
        /// A required member is missing.
        Required = ("required", "This member is required."),
        /// The member is unknown.
        UnknownField = ("unknown_field", "There is no such member; check its spelling."),
        /// The value has the wrong JSON type.
        WrongType = ("wrong_type", "The value has another JSON type than this member."),
        /// `null` is not allowed.
        NullNotAllowed = ("null_not_allowed", "null is not allowed; leave the member out."),
        /// The member exists, but cannot be changed.
        FieldNotMutable = ("field_not_mutable", "This member never changes; leave it out."),
        /// The value contains U+0000, which cannot be stored.
        ContainsNul = ("contains_nul", "The character U+0000 is not allowed."),
        /// The value is not an absolute URL.
        UrlInvalid = ("url_invalid", "Give an absolute address such as https://example.com/path."),
        /// The scheme is neither `http` nor `https`.
        UrlSchemeNotAllowed = ("url_scheme_not_allowed", "Only http and https addresses are accepted."),
        /// The URL contains a user name or password.
        UrlUserinfoNotAllowed = ("url_userinfo_not_allowed", "The address must not contain a user name or password."),
        /// The host is an IP address.
        UrlIpNotAllowed = ("url_ip_not_allowed", "Use a host name; IP addresses are not accepted."),
        /// The host is not a public host name.
        UrlHostNotAllowed = ("url_host_not_allowed", "The host must be a valid name on the public internet."),
        /// The port is not a usual port of a web server.
        UrlPortNotAllowed = ("url_port_not_allowed", "The port must be 80, 443 or from 1024 to 65535."),
        /// The value contains a control character, or a space at its start or end.
        UrlControlCharacter = ("url_control_character", "Control characters and leading or trailing spaces are not allowed."),
        /// The host is a host of this service.
        UrlSelfReference = ("url_self_reference", "A short link can't point to this service itself."),
        /// The URL is too long after serialisation.
        UrlTooLong = ("url_too_long", "The address is longer than 2,048 bytes after encoding."),
        /// The slug has a character outside `[A-Za-z0-9._-]`, or one of `.`, `_` and `-` at its start or end.
        SlugInvalidCharacter = ("slug_invalid_character", "Use A-Z, a-z, 0-9, '.', '_' and '-'; begin and end with a letter or a digit."),
        /// The slug is empty.
        SlugTooShort = ("slug_too_short", "A slug has at least one character; to get a slug that the service draws, leave the member out."),
        /// The slug has more than 64 characters.
        SlugTooLong = ("slug_too_long", "A slug has at most 64 characters."),
        /// The slug is reserved for the service.
        SlugReserved = ("slug_reserved", "This slug is reserved; choose another one."),
        /// The mode of a batch is unknown.
        ModeInvalid = ("mode_invalid", "The mode is partial, atomic or dry_run."),
        /// A batch has no items, or too many.
        ItemCountInvalid = ("item_count_invalid", "A batch has 1 to 100 items."),
        /// The idempotency key of an item is not a UUID.
        IdempotencyKeyInvalid = ("idempotency_key_invalid", "Give a UUID with hyphens, 36 characters long."),
        /// Two items of a batch have the same idempotency key.
        IdempotencyKeyDuplicate = ("idempotency_key_duplicate", "An earlier item has this key; each item needs a key of its own."),
        /// The title is empty, longer than 200 characters or has a control character.
        TitleInvalid = ("title_invalid", "A title has 1 to 200 characters, and no control characters."),
        /// The external id is empty, longer than 128 characters or has another character.
        ExternalIdInvalid = ("external_id_invalid", "Use 1 to 128 of A-Z, a-z, 0-9, '.', '_', ':', '/' and '-'."),
        /// The tag is empty, longer than 64 characters or has another character.
        TagInvalid = ("tag_invalid", "Use 1 to 64 of a-z, 0-9, '.', '_', ':' and '-'; begin with a letter or a digit."),
        /// The tag occurs twice.
        TagDuplicate = ("tag_duplicate", "This tag occurs twice; leave one of them out."),
        /// The link would have more than 20 tags.
        TooManyTags = ("too_many_tags", "A link has at most 20 tags."),
        /// The expiry is not an instant of RFC 3339 with offset, or more than 100 years ahead.
        ExpiresAtInvalid = ("expires_at_invalid", "Give an instant such as 2027-01-31T12:00:00Z, at most 100 years ahead."),
        /// The expiry is not in the future.
        ExpiresAtInThePast = ("expires_at_in_the_past", "The instant must be in the future."),
        /// The link has no expiry.
        ExpiredUrlWithoutExpiresAt = ("expired_url_without_expires_at", "A link with this member also needs expires_at."),
    }
}

/// Maximal number of field errors in one answer.
pub const ERRORS_MAX: usize = 100;

impl FieldCode {
    /// Returns the code as sent to clients.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// Returns advice for people.
    pub const fn detail(self) -> &'static str {
        self.row().1
    }
}

impl fmt::Display for FieldCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Longest part of a member's name that an error repeats, in characters.
const MEMBER_SHOWN_MAX: usize = 64;

/// An invalid field of a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// JSON pointer of the member, as a URI fragment: `#/slug` (RFC 6901).
    pub pointer: String,
    /// Code of the error.
    pub code: FieldCode,
}

impl FieldError {
    /// Returns an error of the top-level member `name`.
    pub fn of_member(name: &str, code: FieldCode) -> Self {
        Self {
            pointer: pointer(name),
            code,
        }
    }

    /// Returns an error of a whole item of a batch.
    pub fn of_item(index: usize, code: FieldCode) -> Self {
        let pointer = format!("#/items/{index}");
        Self { pointer, code }
    }

    /// Returns the error with a pointer into an item of a batch: `#/items/3/slug`.
    #[must_use]
    pub fn in_item(self, index: usize) -> Self {
        let member = self.pointer.trim_start_matches('#');
        let pointer = format!("#/items/{index}{member}");
        Self { pointer, ..self }
    }

    /// Returns an error of an element of the top-level member `name`.
    pub fn of_element(name: &str, index: usize, code: FieldCode) -> Self {
        Self {
            pointer: format!("{}/{index}", pointer(name)),
            code,
        }
    }

    /// Returns advice for people. The advice on a wrong type names the member and its type.
    pub fn detail(&self) -> String {
        if self.code != FieldCode::WrongType {
            return self.code.detail().to_owned();
        }
        let place = self.place();
        format!("The member {place} must be {}.", type_at(&self.pointer))
    }

    /// Returns the advice with the name of the member.
    pub fn detail_with_place(&self) -> String {
        let detail = self.detail();
        if self.code == FieldCode::WrongType {
            return detail;
        }
        format!("{}: {detail}", self.place())
    }

    /// Returns the name of the member, as the pointer writes it.
    fn place(&self) -> &str {
        self.pointer.trim_start_matches("#/")
    }
}

/// Returns the JSON type that the known member at a pointer must have.
fn type_at(pointer: &str) -> &'static str {
    let mut names = pointer.rsplit('/');
    match (names.next(), names.next()) {
        (Some("tags"), _) => "an array of strings",
        (Some("items"), _) => "an array of objects",
        (Some("disabled"), _) => "true or false",
        (_, Some("items")) => "an object",
        (_, _) => "a string",
    }
}

/// Returns the JSON pointer of a top-level member, as a URI fragment; a long name is cut.
fn pointer(name: &str) -> String {
    let mut shown: String = name.chars().take(MEMBER_SHOWN_MAX).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    // RFC 6901, sections 3 and 6: escape for the pointer, then percent-encode for the fragment.
    let escaped = shown.replace('~', "~0").replace('/', "~1");
    let mut pointer = String::from("#/");
    for byte in escaped.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte) {
            pointer.push(char::from(byte));
        } else {
            write!(pointer, "%{byte:02X}").expect("writing to a string never fails");
        }
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_codes_equal_the_golden_file() {
        let golden: Vec<&str> = include_str!("../tests/field_codes.txt").lines().collect();
        let codes: Vec<&str> = FieldCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes, golden);
    }

    #[test]
    fn contract_names_every_field_code() {
        let contract = include_str!("../../docs/api.md");
        for code in FieldCode::ALL {
            assert!(
                contract.contains(&format!("`{code}`")),
                "docs/api.md lacks the field code `{code}`"
            );
        }
    }

    #[test]
    fn pointer_is_escaped_as_rfc_6901() {
        let pointer = |name: &str| FieldError::of_member(name, FieldCode::UnknownField).pointer;
        assert_eq!(pointer("slug"), "#/slug");
        assert_eq!(pointer("a/b~c"), "#/a~1b~0c");
        assert_eq!(pointer("a b\"\u{e4}"), "#/a%20b%22%C3%A4");
        assert_eq!(pointer(&"x".repeat(64)), format!("#/{}", "x".repeat(64)));
        let cut = format!("#/{}%E2%80%A6", "x".repeat(64));
        assert_eq!(pointer(&"x".repeat(10_000)), cut);
    }

    #[test]
    fn detail_names_the_place_once() {
        let short = FieldError::of_member("slug", FieldCode::SlugTooShort);
        assert_eq!(
            short.in_item(3).detail_with_place(),
            format!("items/3/slug: {}", FieldCode::SlugTooShort.detail())
        );
        let wrong = FieldError::of_member("title", FieldCode::WrongType);
        let expected = "The member title must be a string.";
        assert_eq!(wrong.detail_with_place(), expected);
    }

    #[test]
    fn pointer_into_an_item_has_its_index() {
        let error = FieldError::of_member("a/b", FieldCode::UnknownField).in_item(3);
        assert_eq!(error.pointer, "#/items/3/a~1b");
    }
}
