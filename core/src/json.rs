//! Strict JSON for request bodies (RFC 8259, `docs/api.md#errors`), and their fingerprint.
//!
//! Stricter than `serde_json`: duplicate members, a BOM and depth over [`DEPTH_MAX`] are refused,
//! so that two readers of a body can never disagree about it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// Maximal nesting of arrays and objects.
pub const DEPTH_MAX: usize = 32;

/// SHA-256 of the canonical form of a parsed body. Fingerprints are stored: never change the form.
pub type Fingerprint = [u8; 32];

/// Place in a text, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPlace {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the byte in its line, from 1.
    pub column: usize,
}

/// Reason why a body is not a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The body is not exactly one JSON text in UTF-8, or is ambiguous.
    #[error("the body is not well-formed JSON at line {}, column {}", .0.line, .0.column)]
    Malformed(TextPlace),
    /// The body is well-formed, but an array.
    #[error("the body is a JSON array, not an object")]
    Array,
    /// The body is well-formed, but neither an object nor an array.
    #[error("the body is not a JSON object")]
    NotAnObject,
}

impl TextPlace {
    /// Returns the place of the first byte after `text`.
    fn after(text: &[u8]) -> Self {
        let last_line = text.rsplit(|byte| *byte == b'\n').next();
        Self {
            line: text.split(|byte| *byte == b'\n').count(),
            column: last_line.map_or(0, <[u8]>::len) + 1,
        }
    }

    fn of(error: &serde_json::Error) -> Self {
        Self {
            line: error.line(),
            column: error.column().max(1),
        }
    }
}

/// A JSON object. Members are sorted by name, which makes the text canonical.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonObject(Map<String, Value>);

impl JsonObject {
    /// Parses a whole body.
    ///
    /// # Errors
    /// Returns [`JsonError::Malformed`] for a body that two parsers could read differently, and
    /// [`JsonError::Array`] or [`JsonError::NotAnObject`] for any other JSON value.
    pub fn parse(body: &[u8]) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(body).map_err(|error| {
            JsonError::Malformed(TextPlace::after(&body[..error.valid_up_to()]))
        })?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = Strict { depth: 0 }
            .deserialize(&mut deserializer)
            .and_then(|value| deserializer.end().map(|()| value))
            .map_err(|error| JsonError::Malformed(TextPlace::of(&error)))?;
        match value {
            Value::Object(members) => Ok(Self(members)),
            Value::Array(_) => Err(JsonError::Array),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Err(JsonError::NotAnObject)
            }
        }
    }

    /// Returns the fingerprint: equal for all bodies with the same meaning, regardless of order,
    /// white space and escapes.
    pub fn fingerprint(&self) -> Fingerprint {
        let canonical = serde_json::to_vec(&self.0).expect("a parsed value can be written");
        Sha256::digest(canonical).into()
    }

    /// Returns the members, by name.
    pub fn members(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the members, by name.
    pub fn into_members(self) -> Map<String, Value> {
        self.0
    }
}

/// An object inside a parsed body.
impl From<Map<String, Value>> for JsonObject {
    fn from(members: Map<String, Value>) -> Self {
        Self(members)
    }
}

/// Reads one value at a known depth.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self {
            depth: self.depth + 1,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut members = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(inner)?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate member"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(body: &str) -> Fingerprint {
        JsonObject::parse(body.as_bytes()).unwrap().fingerprint()
    }

    #[test]
    fn spelling_does_not_change_the_fingerprint() {
        let plain = fingerprint(r#"{"destination_url":"https://example.com/","slug":"abc"}"#);
        assert_eq!(
            plain,
            fingerprint(
                "{ \"slug\" : \"a\\u0062c\",\n \"destination_url\":\"https:\\/\\/example.com/\" }"
            )
        );
        assert_ne!(
            plain,
            fingerprint(r#"{"destination_url":"https://example.com/","slug":"abC"}"#)
        );
    }

    #[test]
    fn fingerprint_equals_its_stored_value() {
        let fingerprint = fingerprint(r#"{"slug":"x","destination_url":"https://example.com/"}"#);
        let number = |bytes: &[u8]| u128::from_be_bytes(bytes.try_into().unwrap());
        let hex = format!(
            "{:032x}{:032x}",
            number(&fingerprint[..16]),
            number(&fingerprint[16..])
        );
        // Of the canonical text {"destination_url":"https://example.com/","slug":"x"}.
        assert_eq!(
            hex,
            "aa0bf143fa44d04e5fe3fa3c1f761b3ca58f0602628d7384f5c2ecf9d394ebc1"
        );
    }

    #[test]
    fn ambiguous_or_broken_texts_are_malformed() {
        let too_deep = format!("{{\"a\":{}1{}}}", "[".repeat(32), "]".repeat(32));
        for body in [
            "",
            " ",
            "{",
            "{}{}",
            "{} x",
            "{,}",
            r#"{"a":1,}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\udc00\ud800"}"#,
            r#"{"a":NaN}"#,
            r#"{"a":1e400}"#,
            "{'a':1}",
            "{\"a\":\"\u{1}\"}",
            "\u{feff}{}",
            "// c\n{}",
            &too_deep,
        ] {
            let refused = JsonObject::parse(body.as_bytes());
            assert!(
                matches!(refused, Err(JsonError::Malformed(place)) if place.line > 0),
                "{body}: {refused:?}"
            );
        }
    }

    #[test]
    fn malformed_text_has_line_and_column() {
        for (body, line, column) in [
            (&b"{\"a\":1,}"[..], 1, 8),
            (b"{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3),
            (b"{\"a\":1,\n\"a\":2}", 2, 6),
            (b"{}\n{}", 2, 1),
            (b"{\"a\":\n\"\xff\"}", 2, 2),
        ] {
            let expected = Err(JsonError::Malformed(TextPlace { line, column }));
            assert_eq!(JsonObject::parse(body), expected);
        }
    }

    #[test]
    fn other_values_are_not_objects() {
        for body in ["[]", " [1] "] {
            assert_eq!(JsonObject::parse(body.as_bytes()), Err(JsonError::Array));
        }
        for body in ["null", "\"x\"", "1", "true"] {
            assert_eq!(
                JsonObject::parse(body.as_bytes()),
                Err(JsonError::NotAnObject),
                "{body}"
            );
        }
    }

    #[test]
    fn the_deepest_allowed_nesting_is_read() {
        let body = format!("{{\"a\":{}1{}}}", "[".repeat(31), "]".repeat(31));
        assert!(JsonObject::parse(body.as_bytes()).is_ok());
    }
}
