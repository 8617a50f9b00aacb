//! Bodies of requests to the admin API and of those about webhooks: reading them, and the parser of their members, which reports all errors at
//! once.

use std::error::Error as _;

use axum::{
    body::{Body, Bytes, to_bytes},
    http::HeaderMap,
};
use http_body_util::LengthLimitError;
use serde_json::Value;

use super::request::AcceptedBody;
use crate::problem::Problem;
use linkledger_core::{
    api_key::Scope,
    change::ValueUpdate,
    field::{ERRORS_MAX, FieldCode, FieldError, most_useful},
    json::{JsonError, JsonObject},
};
use linkledger_service::operator::parse_text;

/// Reason for a change.
pub const REASON: &str = "reason";
/// Permissions of a key.
pub const SCOPES: &str = "scopes";

/// Reads a body that the headers describe.
///
/// # Errors
/// Returns the problems of [`AcceptedBody::check`], `content_too_large` or `malformed_json`.
pub async fn read_body(
    headers: &HeaderMap,
    body: Body,
    accepted: &AcceptedBody,
) -> Result<Bytes, Problem> {
    accepted.check(headers)?;
    let read = to_bytes(body, accepted.length_max).await;
    read.map_err(|error| {
        let cause = error.source();
        if cause.is_some_and(<dyn std::error::Error>::is::<LengthLimitError>) {
            Problem::content_too_large(accepted.length_max)
        } else {
            Problem::body_incomplete()
        }
    })
}

/// Parses the bytes of a body as a JSON object.
///
/// # Errors
/// Returns `malformed_json` or `body_not_object`.
pub fn parse_object(bytes: &[u8]) -> Result<JsonObject, Problem> {
    JsonObject::parse(bytes).map_err(|error| match error {
        JsonError::Malformed(place) => Problem::malformed_json(place),
        JsonError::Array | JsonError::NotAnObject => Problem::body_not_object(),
    })
}

/// Members of one body while they are parsed, and their errors so far.
#[derive(Debug)]
pub struct Members<'a> {
    object: &'a JsonObject,
    errors: Vec<FieldError>,
}

impl<'a> Members<'a> {
    /// Begins to parse a body, whose members are all among `known`.
    pub fn of(object: &'a JsonObject, known: &'static [&'static str]) -> Self {
        Self::of_patch(object, known, &[])
    }

    /// Begins to parse a merge patch, which changes members among `mutable`; those among `immutable` exist, and never
    /// change.
    pub fn of_patch(
        object: &'a JsonObject,
        mutable: &'static [&'static str],
        immutable: &[&str],
    ) -> Self {
        let names = object.members().keys().map(String::as_str);
        let others = names.filter(|name| !mutable.contains(name));
        let errors = others.map(|name| {
            if immutable.contains(&name) {
                FieldError::of_member(name, FieldCode::FieldNotMutable)
            } else {
                FieldError::of_unknown_member(name, mutable)
            }
        });
        Self {
            object,
            errors: errors.collect(),
        }
    }

    /// Parses a member that must be there.
    pub fn required<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Value) -> Result<T, FieldCode>,
    ) -> Option<T> {
        if !self.object.members().contains_key(name) {
            self.refuse(name, FieldCode::Required);
        }
        self.optional(name, parse)
    }

    /// Parses a member that may be missing.
    pub fn optional<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Value) -> Result<T, FieldCode>,
    ) -> Option<T> {
        let value = self.object.members().get(name)?;
        let parsed = if value.is_null() {
            Err(FieldCode::NullNotAllowed)
        } else {
            parse(value)
        };
        parsed.map_err(|code| self.refuse(name, code)).ok()
    }

    /// Parses a member of a merge patch, which `null` removes.
    pub fn update<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Value) -> Result<T, FieldCode>,
    ) -> ValueUpdate<T> {
        if self.object.members().get(name).is_some_and(Value::is_null) {
            return ValueUpdate::Remove;
        }
        self.optional(name, parse)
            .map_or(ValueUpdate::Keep, ValueUpdate::Set)
    }

    /// Parses scopes that must be there.
    pub fn required_scopes(&mut self) -> Option<Vec<Scope>> {
        if !self.object.members().contains_key(SCOPES) {
            self.refuse(SCOPES, FieldCode::Required);
        }
        self.scopes()
    }

    /// Parses scopes, with an error for each that is unknown.
    pub fn scopes(&mut self) -> Option<Vec<Scope>> {
        let scopes = self.array(SCOPES, |value| {
            let scope = Scope::of_name(text_of(value)?);
            scope.ok_or(FieldCode::ScopeInvalid)
        })?;
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        if self.object.members().get(SCOPES).is_some_and(is_empty) {
            self.refuse(SCOPES, FieldCode::ScopesEmpty);
        }
        Some(scopes)
    }

    /// Parses an array that may be missing, with an error for each element that is refused.
    pub fn array<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&Value) -> Result<T, FieldCode>,
    ) -> Option<Vec<T>> {
        let values = self.optional(name, |value| match value {
            Value::Array(values) => Ok(values.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => Err(FieldCode::WrongType),
        })?;
        let mut elements = Vec::new();
        for (index, value) in values.iter().enumerate() {
            match parse(value) {
                Ok(element) => elements.push(element),
                Err(code) => {
                    let error = FieldError::of_element(name, index, code);
                    self.errors.push(error);
                }
            }
        }
        Some(elements)
    }

    /// Refuses a member for a reason that its value alone does not have.
    pub fn refuse(&mut self, name: &str, code: FieldCode) {
        self.errors.push(FieldError::of_member(name, code));
    }

    /// Returns the parsed body, which is complete if no member was refused.
    ///
    /// # Errors
    /// Returns all errors, ordered by member.
    pub fn finish<T>(self, body: impl FnOnce() -> Option<T>) -> Result<T, Vec<FieldError>> {
        match body() {
            Some(body) if self.errors.is_empty() => Ok(body),
            Some(_) | None => Err(most_useful(self.errors, ERRORS_MAX)),
        }
    }
}

/// Parses a body with a reason only.
///
/// # Errors
/// Returns all errors, ordered by member.
pub fn parse_reason(object: &JsonObject) -> Result<String, Vec<FieldError>> {
    let mut members = Members::of(object, &[REASON]);
    let reason = members.required(REASON, text);
    members.finish(|| reason)
}

/// Parses a name, a reason or a description.
///
/// # Errors
/// Returns the code of a value that is no text of one line.
pub fn text(value: &Value) -> Result<String, FieldCode> {
    let given = text_of(value)?;
    let parsed = parse_text(given).ok();
    // Refused, not trimmed: the event has the text as sent.
    let parsed = parsed.filter(|parsed| parsed == given);
    parsed.ok_or(FieldCode::TextInvalid)
}

/// Parses a whole number that `is_valid` accepts; `code` is the error of any other number, also of one written as `7.0`.
///
/// # Errors
/// Returns `wrong_type` if the value is no number, and `code`.
pub fn number(
    value: &Value,
    code: FieldCode,
    is_valid: impl FnOnce(i64) -> bool,
) -> Result<i64, FieldCode> {
    let Value::Number(number) = value else {
        return Err(FieldCode::WrongType);
    };
    let number = number.as_i64().filter(|number| is_valid(*number));
    number.ok_or(code)
}

/// Returns the text of a value.
///
/// # Errors
/// Returns the code of a value of another type.
pub fn text_of(value: &Value) -> Result<&str, FieldCode> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Err(FieldCode::NullNotAllowed),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(FieldCode::WrongType)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(body: &Value) -> JsonObject {
        JsonObject::parse(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn every_error_of_a_body_is_reported() {
        let body = json!({ "name": 1, "scopes": ["link:links.read", "x", null], "colour": "red" });
        let object = object(&body);
        let mut members = Members::of(&object, &["name", SCOPES, REASON]);
        let name = members.required("name", text);
        let reason = members.required(REASON, text);
        let scopes = members.scopes();
        assert_eq!(scopes, Some(vec![Scope::LinksRead]));
        let errors = members.finish(|| Some((name?, reason?))).unwrap_err();
        let errors: Vec<_> = errors
            .iter()
            .map(|error| (error.pointer.as_str(), error.code))
            .collect();
        let expected = [
            ("#/colour", FieldCode::UnknownField),
            ("#/name", FieldCode::WrongType),
            ("#/reason", FieldCode::Required),
            ("#/scopes/1", FieldCode::ScopeInvalid),
            ("#/scopes/2", FieldCode::NullNotAllowed),
        ];
        assert_eq!(errors, expected);
    }

    #[test]
    fn null_removes_in_a_patch_only() {
        let object = object(&json!({ "name": null }));
        let mut members = Members::of(&object, &["name"]);
        assert_eq!(members.update("name", text), ValueUpdate::Remove);
        assert_eq!(members.update(REASON, text), ValueUpdate::Keep);
        assert_eq!(members.optional("name", text), None);
        let errors = members.finish(|| Some(())).unwrap_err();
        assert_eq!(errors[0].code, FieldCode::NullNotAllowed);
    }

    #[test]
    fn text_is_one_line_as_sent() {
        for valid in ["x", "ticket 7", &"\u{e9}".repeat(200)] {
            assert_eq!(text(&json!(valid)).as_deref(), Ok(valid));
        }
        for invalid in [
            "",
            " x",
            "x ",
            "two\nlines",
            "\u{0}",
            "\u{202e}x",
            &"x".repeat(201),
        ] {
            let refused = text(&json!(invalid));
            assert_eq!(refused, Err(FieldCode::TextInvalid), "{invalid:?}");
        }
    }
}
