//! JSON documents of other products: records whose members are read by name and checked by type.

use serde::Deserialize;
use serde_json::{Deserializer, Map, Value, value::RawValue};

use super::SourceError;

/// A record of a JSON document, with its place for errors.
pub(super) struct JsonRecord {
    place: String,
    members: Map<String, Value>,
}

impl JsonRecord {
    pub(super) fn parse(raw: &RawValue, place: String) -> Result<Self, SourceError> {
        match serde_json::from_str(raw.get()) {
            Ok(members) => Ok(Self { place, members }),
            Err(_) => Err(SourceError::new(place, "not a JSON object")),
        }
    }

    /// Returns a member, by the names on the way to the member with dots between them; `None` for a
    /// missing member and for `null`.
    pub(super) fn member(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let first = self.members.get(names.next()?)?;
        let member = names.try_fold(first, |value, name| value.get(name))?;
        (!member.is_null()).then_some(member)
    }

    /// Returns a member that is a text; `None` also for an empty text.
    pub(super) fn text(&self, path: &str) -> Result<Option<&str>, SourceError> {
        match self.member(path) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(self.refused(path, "not a text")),
        }
    }

    /// Returns a text without which the record is no link.
    pub(super) fn required_text(&self, path: &str) -> Result<&str, SourceError> {
        self.text(path)?
            .ok_or_else(|| self.refused(path, "missing or empty"))
    }

    /// Returns a member that is a list of texts.
    pub(super) fn texts(&self, path: &str) -> Result<Vec<&str>, SourceError> {
        let list = match self.member(path) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(self.refused(path, "not a list")),
        };
        let texts = list.iter().map(Value::as_str).collect::<Option<_>>();
        texts.ok_or_else(|| self.refused(path, "not a list of texts"))
    }

    /// Returns true if a member says something: neither `false`, 0, nor empty.
    pub(super) fn is_set(&self, path: &str) -> bool {
        match self.member(path) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(Value::Number(number)) => number.as_f64() != Some(0.0),
            Some(Value::String(text)) => !text.is_empty() && text != "0",
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Object(members)) => !members.is_empty(),
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    fn refused(&self, path: &str, reason: &str) -> SourceError {
        SourceError::new(format_args!("{}.{path}", self.place), reason)
    }
}

/// Parses the documents of a text, one after the other: the pages of a list can be appended to one file.
pub(super) fn documents<'t, D: Deserialize<'t>>(text: &'t str) -> Result<Vec<D>, SourceError> {
    let documents = Deserializer::from_str(text).into_iter();
    let documents: Vec<D> = documents.collect::<Result<_, _>>().map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        let place = format!("line {}, column {}", error.line(), error.column());
        SourceError::new(place, reason)
    })?;
    if documents.is_empty() {
        return Err(SourceError::line(1, "the file has no JSON document"));
    }
    Ok(documents)
}
