//! Errors of one field of a request body (`docs/api.md#errors`).

use std::fmt::{self, Write as _};

use crate::listed;

/// Maximal length of the name of an account or an API key, and of texts of operators such as reasons, in characters.
pub const TEXT_LENGTH_MAX: usize = 200;

/// Name of a code, and advice for people.
type FieldCodeRow = (&'static str, &'static str);

listed! {
    /// Stable code of a field error. A code is never renamed or given another meaning.
    pub enum FieldCode: FieldCodeRow {
        /// A required member is missing.
        Required = ("required", "This member is required."),
        /// The member is unknown.
        UnknownField = ("unknown_field", "There is no such member; leave it out."),
        /// The value has the wrong JSON type.
        WrongType = ("wrong_type", "The value has another JSON type than this member."),
        /// `null` is not allowed.
        NullNotAllowed = ("null_not_allowed", "null is not allowed; leave the member out."),
        /// The member exists, but cannot be changed.
        FieldNotMutable = ("field_not_mutable", "This member never changes; leave it out."),
        /// The value contains U+0000, which cannot be stored.
        ContainsNul = ("contains_nul", "The character U+0000 is not allowed."),
        /// The value does not have the form of an address with a scheme.
        UrlInvalid = ("url_invalid", "Write the address in the form https://example.com/path: two slashes, a valid host name, and no quotes, brackets or other text around it."),
        /// The address begins with its host or its path.
        UrlSchemeMissing = ("url_scheme_missing", "Write the whole address, beginning with https://, such as https://example.com/path."),
        /// The service does not accept addresses of this scheme.
        UrlSchemeNotAllowed = ("url_scheme_not_allowed", "This service does not accept addresses of this kind; give one that begins with https://."),
        /// The address has a backslash before its query and fragment.
        UrlBackslash = ("url_backslash", "Write / instead of each \\ before the first ? or #, or %5C if the address needs a backslash."),
        /// The URL contains a user name or password.
        UrlUserinfoNotAllowed = ("url_userinfo_not_allowed", "The address must not contain a user name or password."),
        /// The host is an IP address.
        UrlIpNotAllowed = ("url_ip_not_allowed", "Use a host name, such as www.example.com; IP addresses are not accepted."),
        /// The host is no name, or none that this service accepts.
        UrlHostNotAllowed = ("url_host_not_allowed", "Use a host name such as www.example.com: 1 to 63 letters, digits, '-' and '_' between single dots, at most 253 characters, no dot at its end, no invisible character. A name without a dot, or of a local network, is accepted only if this service was set up for an intranet."),
        /// The host of a webhook is a name of the machine itself.
        UrlHostLocal = ("url_host_local", "Names of this machine, such as localhost, are refused: give the public name of your receiver. Where webhooks may reach this machine, as beside a stack for development, write 127.0.0.1 instead."),
        /// The port is not a usual port of a web server.
        UrlPortNotAllowed = ("url_port_not_allowed", "The port must be 80, 443 or from 1024 to 65535, or any number up to 65535 if this service was set up for an intranet."),
        /// The value contains a control character.
        UrlControlCharacter = ("url_control_character", "Remove the control characters, such as line breaks and tabs."),
        /// The value has a space or an invisible character at its start or end.
        UrlSpaceAtEnd = ("url_space_at_end", "Remove the spaces and invisible characters before and after the address."),
        /// The host is a host of this service.
        UrlSelfReference = ("url_self_reference", "A short link can't point to this service itself."),
        /// The URL is too long after serialisation.
        UrlTooLong = ("url_too_long", "An address has at most 8,192 bytes after encoding, that of a webhook 2,048."),
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
        ExternalIdInvalid = ("external_id_invalid", "Use 1 to 128 of A-Z, a-z, 0-9, '.', '_', ':', '/' and '-'; the id of an account can also have '@', and is neither '.' nor '..'."),
        /// The tag is empty, longer than 64 characters or has another character.
        TagInvalid = ("tag_invalid", "Use 1 to 64 letters and digits of any script, spaces and . _ : - + # & / '; begin with a letter or a digit."),
        /// The link would have more than 20 tags.
        TooManyTags = ("too_many_tags", "A link has at most 20 tags."),
        /// The expiry is not an instant of RFC 3339 with offset, or that of a link more than 100 years ahead.
        ExpiresAtInvalid = ("expires_at_invalid", "Give an instant such as 2027-01-31T12:00:00Z; that of a link is at most 100 years ahead."),
        /// The expiry is not in the future.
        ExpiresAtInThePast = ("expires_at_in_the_past", "The instant must be in the future."),
        /// The link has no expiry.
        ExpiredUrlWithoutExpiresAt = ("expired_url_without_expires_at", "A link with this member also needs expires_at."),
        /// The name, reason or description is empty, longer than 200 characters or not one printable line.
        TextInvalid = ("text_invalid", "A text has 1 to 200 printable characters on one line, and no spaces at its ends."),
        /// The reference is empty, longer than 128 characters or not printable ASCII.
        ReferenceInvalid = ("reference_invalid", "A reference has 1 to 128 printable ASCII characters, and no spaces at its ends."),
        /// The scope is unknown.
        ScopeInvalid = ("scope_invalid", "The scopes are link:links.write, link:links.read, link:credits.read, link:clicks.read, link:events.read, link:webhooks.read and link:webhooks.write."),
        /// The key would have no scope.
        ScopesEmpty = ("scopes_empty", "A key has at least one scope."),
        /// The number is no number of credits that a grant or an adjustment can have.
        AmountInvalid = ("amount_invalid", "Give a whole number of credits: of a grant at least 1, of an adjustment any but 0."),
        /// The number is no balance.
        BalanceInvalid = ("balance_invalid", "Give a whole number of credits from 0 to 9007199254740991."),
        /// The balance would exceed [`BALANCE_MAX`](crate::credits::BALANCE_MAX).
        BalanceTooLarge = ("balance_too_large", "The balance would exceed 9007199254740991; give a smaller number."),
        /// The way back from the console is no address of the web, or too long.
        ReturnUrlInvalid = ("return_url_invalid", "Give an address that begins with https:// or http://, without a user name, of at most 2,048 bytes."),
        /// The overlap is no number of seconds up to a week.
        OverlapInvalid = ("overlap_invalid", "Give a whole number of seconds from 0 to 604800."),
        /// The value is not a SHA-256.
        SecretSha256Invalid = ("secret_sha256_invalid", "Give the SHA-256 of the secret: 64 hexadecimal digits."),
        /// Another key has the same secret.
        SecretTaken = ("secret_taken", "A key with this secret was issued before; make a new secret."),
        /// The value is not the id of an entry.
        EntryIdInvalid = ("entry_id_invalid", "Give the id of an entry: ent_ and 26 characters of 0-9 and a-z."),
        /// The external id belongs to the account of the operators.
        ExternalIdReserved = ("external_id_reserved", "The external id operators belongs to the account that owns the operators' webhooks; choose another one."),
        /// The type is no type of messages that a webhook can have.
        MessageTypeInvalid = ("message_type_invalid", "Give types of messages: link.created, .updated, .disabled, .enabled, .deleted, .expired, .first_click or .clicks, credits.granted, .adjusted, .refunded, .revoked or .low, account.suspended or .resumed; for operators also account.created, account.changed, webhook.failing and webhook.disabled. Without types a webhook receives all messages but link.clicks."),
        /// The overlap is no number of hours up to a week.
        OverlapHoursInvalid = ("overlap_hours_invalid", "Give a whole number of hours from 0 to 168."),
        /// The value is not an instant.
        InstantInvalid = ("instant_invalid", "Give an instant such as 2026-11-20T09:00:00Z."),
        /// A replay has no start, or two.
        ReplayStartInvalid = ("replay_start_invalid", "Send exactly one of from, an instant, and after, the id of an event."),
        /// The end of a replay is not after its start.
        ReplayEndInvalid = ("replay_end_invalid", "The instant must be after from."),
        /// The value is not the id of an event.
        EventIdInvalid = ("event_id_invalid", "Give the id of an event: evt_ and 26 characters of 0-9 and a-z."),
        /// The webhook receives no messages about the event.
        EventUnknown = ("event_unknown", "There is no such event; check the id."),
        /// The number is no threshold of a balance.
        ThresholdInvalid = ("threshold_invalid", "Give a whole number of credits from 1 to 9007199254740991."),
        /// The account would have more than 5 thresholds.
        TooManyThresholds = ("too_many_thresholds", "An account has at most 5 thresholds."),
    }
}

/// Maximal number of field errors in one answer.
pub const ERRORS_MAX: usize = 100;
/// Maximal number of field errors of one item of a batch: an answer must not be far larger than its request.
pub const ITEM_ERRORS_MAX: usize = 10;

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

/// Likeness (Jaro-Winkler) from which an unknown member seems to mean a known one.
const LIKENESS_MIN: f64 = 0.88;
/// Longest part of a member's name that an error repeats, in bytes.
const MEMBER_SHOWN_MAX: usize = 64;

/// An invalid field of a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// JSON pointer of the member, as a URI fragment: `#/slug` (RFC 6901).
    pub pointer: String,
    /// Code of the error.
    pub code: FieldCode,
    /// Members that there are, if this one is unknown.
    pub members: &'static [&'static str],
}

impl FieldError {
    /// Returns an error of the top-level member `name`.
    pub fn of_member(name: &str, code: FieldCode) -> Self {
        Self::at(pointer(name), code)
    }

    /// Returns the error of a top-level member that is none of `members`.
    pub fn of_unknown_member(name: &str, members: &'static [&'static str]) -> Self {
        Self {
            members,
            ..Self::of_member(name, FieldCode::UnknownField)
        }
    }

    const fn at(pointer: String, code: FieldCode) -> Self {
        Self {
            pointer,
            code,
            members: &[],
        }
    }

    /// Returns an error of a whole item of a batch.
    pub fn of_item(index: usize, code: FieldCode) -> Self {
        Self::at(format!("#/items/{index}"), code)
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
        Self::at(format!("{}/{index}", pointer(name)), code)
    }

    /// Returns advice for people. The advice on a wrong type names the member and its type, that on an unknown member
    /// the nearest one.
    pub fn detail(&self) -> String {
        if self.code == FieldCode::WrongType {
            let place = self.place();
            return format!("The member {place} must be {}.", type_at(&self.pointer));
        }
        if let Some(nearest) = self.nearest_member() {
            return format!("There is no such member; did you mean {nearest}?");
        }
        self.code.detail().to_owned()
    }

    /// Returns the member that an unknown one most likely means.
    fn nearest_member(&self) -> Option<&'static str> {
        let name = self.pointer.rsplit('/').next()?.to_ascii_lowercase();
        let likeness = |member: &str| strsim::jaro_winkler(&name, member);
        let members = self.members.iter().copied();
        let nearest = members.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
        (likeness(nearest) >= LIKENESS_MIN).then_some(nearest)
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

/// Returns at most `count_max` of the errors, sorted by member. Drops errors of unknown members first, then errors of
/// immutable members.
pub fn most_useful(mut errors: Vec<FieldError>, count_max: usize) -> Vec<FieldError> {
    let priority = |error: &FieldError| {
        let is_unknown = error.code == FieldCode::UnknownField;
        (is_unknown, error.code == FieldCode::FieldNotMutable)
    };
    errors.sort_by_key(priority);
    errors.truncate(count_max);
    errors.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    errors
}

/// Returns the JSON type that the known member at a pointer must have.
fn type_at(pointer: &str) -> &'static str {
    let mut names = pointer.rsplit('/');
    match (names.next(), names.next()) {
        (Some("tags" | "scopes" | "types"), _) => "an array of strings",
        (Some("low_balance_at"), _) => "an array of whole numbers",
        (Some("items"), _) => "an array of objects",
        (Some("disabled" | "stop_redirects" | "enabled" | "in_order"), _) => "true or false",
        (Some("amount" | "balance" | "overlap_seconds" | "overlap_hours"), _)
        | (_, Some("low_balance_at")) => "a whole number",
        (_, Some("items")) => "an object",
        (_, _) => "a string",
    }
}

/// Returns the JSON pointer of a top-level member, as a URI fragment; a long name is cut.
fn pointer(name: &str) -> String {
    let mut shown = name[..name.floor_char_boundary(MEMBER_SHOWN_MAX)].to_owned();
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
    fn unknown_member_names_the_nearest_one() {
        const MEMBERS: &[&str] = &["destination_url", "slug", "tags", "expires_at", "title"];
        for (name, nearest) in [
            ("Slug", Some("slug")),
            ("tag", Some("tags")),
            ("destination", Some("destination_url")),
            ("destinationUrl", Some("destination_url")),
            ("expiresAt", Some("expires_at")),
            ("titel", Some("title")),
            ("notes", None),
            ("description", None),
            ("utm_source", None),
        ] {
            let error = FieldError::of_unknown_member(name, MEMBERS).in_item(7);
            assert_eq!(error.nearest_member(), nearest, "{name}");
        }
        let error = FieldError::of_unknown_member("titel", MEMBERS);
        assert_eq!(
            error.detail(),
            "There is no such member; did you mean title?"
        );
    }

    #[test]
    fn pointer_into_an_item_has_its_index() {
        let error = FieldError::of_member("a/b", FieldCode::UnknownField).in_item(3);
        assert_eq!(error.pointer, "#/items/3/a~1b");
    }
}
