//! Errors of one field of a request body (`docs/api.md#errors`).

use std::fmt::{self, Write as _};

use crate::listed::listed;

listed! {
    /// Stable code of a field error. A code is never renamed or given another meaning.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum FieldCode {
        /// A required member is missing.
        Required,
        /// The member is unknown.
        UnknownField,
        /// The value has the wrong JSON type.
        WrongType,
        /// `null` is not allowed.
        NullNotAllowed,
        /// The member exists, but cannot be changed.
        FieldNotMutable,
        /// The value contains U+0000, which cannot be stored.
        ContainsNul,
        /// The value is not an absolute URL.
        UrlInvalid,
        /// The scheme is neither `http` nor `https`.
        UrlSchemeNotAllowed,
        /// The URL contains a user name or password.
        UrlUserinfoNotAllowed,
        /// The host is an IP address.
        UrlIpNotAllowed,
        /// The host is not a public host name.
        UrlHostNotAllowed,
        /// The port is not a usual port of a web server.
        UrlPortNotAllowed,
        /// The value contains a control character, or a space at its start or end.
        UrlControlCharacter,
        /// The host is a host of this service.
        UrlSelfReference,
        /// The URL is too long after serialisation.
        UrlTooLong,
        /// The slug has a character outside `[A-Za-z0-9_-]`, or `_` or `-` at its start or end.
        SlugInvalidCharacter,
        /// The slug has less than three characters.
        SlugTooShort,
        /// The slug has more than 64 characters.
        SlugTooLong,
        /// The slug is reserved for the service.
        SlugReserved,
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

    const fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::Required => ("required", "This member is required."),
            Self::UnknownField => (
                "unknown_field",
                "There is no such member; check its spelling.",
            ),
            Self::WrongType => ("wrong_type", "The value must be a string."),
            Self::NullNotAllowed => (
                "null_not_allowed",
                "null is not allowed; leave the member out.",
            ),
            Self::FieldNotMutable => (
                "field_not_mutable",
                "This member never changes; leave it out.",
            ),
            Self::ContainsNul => ("contains_nul", "The character U+0000 is not allowed."),
            Self::UrlInvalid => (
                "url_invalid",
                "Give an absolute address such as https://example.com/path.",
            ),
            Self::UrlSchemeNotAllowed => (
                "url_scheme_not_allowed",
                "Only http and https addresses are accepted.",
            ),
            Self::UrlUserinfoNotAllowed => (
                "url_userinfo_not_allowed",
                "The address must not contain a user name or password.",
            ),
            Self::UrlIpNotAllowed => (
                "url_ip_not_allowed",
                "Use a host name; IP addresses are not accepted.",
            ),
            Self::UrlHostNotAllowed => (
                "url_host_not_allowed",
                "The host must be a valid name on the public internet.",
            ),
            Self::UrlPortNotAllowed => (
                "url_port_not_allowed",
                "The port must be 80, 443 or from 1024 to 65535.",
            ),
            Self::UrlControlCharacter => (
                "url_control_character",
                "Control characters and leading or trailing spaces are not allowed.",
            ),
            Self::UrlSelfReference => (
                "url_self_reference",
                "A short link can't point to this service itself.",
            ),
            Self::UrlTooLong => (
                "url_too_long",
                "The address is longer than 2,048 bytes after encoding.",
            ),
            Self::SlugInvalidCharacter => (
                "slug_invalid_character",
                "Use A-Z, a-z, 0-9, '_' and '-'; begin and end with a letter or a digit.",
            ),
            Self::SlugTooShort => ("slug_too_short", "A slug has at least 3 characters."),
            Self::SlugTooLong => ("slug_too_long", "A slug has at most 64 characters."),
            Self::SlugReserved => (
                "slug_reserved",
                "This slug is reserved; choose another one.",
            ),
        }
    }
}

impl fmt::Display for FieldCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
        // RFC 6901, sections 3 and 6: escape for the pointer, then percent-encode for the fragment.
        let escaped = name.replace('~', "~0").replace('/', "~1");
        let mut pointer = String::from("#/");
        for byte in escaped.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte) {
                pointer.push(char::from(byte));
            } else {
                write!(pointer, "%{byte:02X}").expect("writing to a string never fails");
            }
        }
        Self { pointer, code }
    }
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
    fn pointer_is_escaped_as_rfc_6901() {
        let pointer = |name| FieldError::of_member(name, FieldCode::UnknownField).pointer;
        assert_eq!(pointer("slug"), "#/slug");
        assert_eq!(pointer("a/b~c"), "#/a~1b~0c");
        assert_eq!(pointer("a b\"\u{e4}"), "#/a%20b%22%C3%A4");
    }
}
