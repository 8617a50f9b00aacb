//! Values of details: titles, external ids and expiries.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::{Duration, OffsetDateTime};

use crate::{field::FieldCode, timestamp};

/// Maximal length of a title, in characters.
pub const TITLE_LENGTH_MAX: usize = 200;
/// Regular expression of titles.
pub const TITLE_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";
/// Maximal length of an external id, in characters.
pub const EXTERNAL_ID_LENGTH_MAX: usize = 128;
/// Regular expression of external ids.
pub const EXTERNAL_ID_PATTERN: &str = "^[A-Za-z0-9._:/-]+$";
/// Longest time from now to an expiry: 100 years, with 25 leap days.
pub const EXPIRY_AHEAD_MAX: Duration = Duration::days(36_525);

/// Parses a title.
///
/// # Errors
/// Returns [`FieldCode::TitleInvalid`].
pub fn parse_title(text: &str) -> Result<String, FieldCode> {
    let is_valid = (1..=TITLE_LENGTH_MAX).contains(&text.chars().count())
        && !text.chars().any(char::is_control);
    let title = is_valid.then(|| text.to_owned());
    title.ok_or(FieldCode::TitleInvalid)
}

/// Parses an external id.
///
/// # Errors
/// Returns [`FieldCode::ExternalIdInvalid`].
pub fn parse_external_id(text: &str) -> Result<String, FieldCode> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    let is_valid =
        (1..=EXTERNAL_ID_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_allowed);
    let id = is_valid.then(|| text.to_owned());
    id.ok_or(FieldCode::ExternalIdInvalid)
}

/// Instant at which a link expires, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(OffsetDateTime);

impl Expiry {
    /// Returns the expiry at an instant; drops fractions of a millisecond.
    pub fn at(instant: OffsetDateTime) -> Self {
        let milliseconds = i64::from(instant.millisecond());
        let whole = instant.replace_nanosecond(0).unwrap_or(instant);
        Self(whole + Duration::milliseconds(milliseconds))
    }

    /// Parses an instant of RFC 3339 with any offset.
    ///
    /// # Errors
    /// Returns [`FieldCode::ExpiresAtInvalid`].
    pub fn parse(text: &str) -> Result<Self, FieldCode> {
        let instant = timestamp::parse(text).map(Self::at);
        instant.ok_or(FieldCode::ExpiresAtInvalid)
    }

    /// Checks a new expiry: in the future, at most 100 years ahead.
    ///
    /// # Errors
    /// Returns [`FieldCode::ExpiresAtInThePast`] or [`FieldCode::ExpiresAtInvalid`].
    pub fn check(self, now: OffsetDateTime) -> Result<(), FieldCode> {
        if self.0 <= now {
            return Err(FieldCode::ExpiresAtInThePast);
        }
        if self.0 - now > EXPIRY_AHEAD_MAX {
            return Err(FieldCode::ExpiresAtInvalid);
        }
        Ok(())
    }

    /// Returns the instant, in UTC.
    pub const fn instant(self) -> OffsetDateTime {
        self.0
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&timestamp::format(self.0))
    }
}

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Expiry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        timestamp::deserialize(deserializer).map(Self::at)
    }
}

impl JsonSchema for Expiry {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Expiry".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
