//! JSON documents of other products: records whose members are read by name and checked by type.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Deserializer, Value, error::Category, value::RawValue};

use super::{RawRecord, SourceError, SourceFormat};
use crate::import::record::{Change, Refusal};

/// A record of a JSON document. A fault of a member refuses its record only.
pub(super) struct JsonRecord {
    members: BTreeMap<String, Member>,
}

/// Members of the records of a format.
pub(super) struct JsonMembers {
    /// Names of the old address and of the destination, by which people find a broken record.
    pub(super) texts: [&'static str; 2],
    /// Members without a counterpart, by their path, and their names in the report.
    pub(super) not_imported: &'static [(&'static str, &'static str)],
    /// Names of the further members that an import reads, or that mean nothing without the product.
    pub(super) known: &'static [&'static str],
}

impl JsonMembers {
    /// Returns true for the name of a member that the format knows.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut paths = self.not_imported.iter().map(|(path, _)| *path);
        self.texts.contains(&name)
            || self.known.contains(&name)
            || paths.any(|path| path.split('.').next() == Some(name))
    }
}

/// A member, or its JSON if that cannot be read: half a pair of surrogates, a number without an end.
enum Member {
    Read(Value),
    Unreadable(String),
}

/// Fault of a member without which, or as which, a record is no link.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MemberFault(String);

impl JsonRecord {
    pub(super) fn parse(raw: &RawValue) -> Result<Self, MemberFault> {
        let members: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(raw.get());
        let members =
            members.map_err(|_| MemberFault("The record is no JSON object.".to_owned()))?;
        let member = |raw: &RawValue| match serde_json::from_str(raw.get()) {
            Ok(value) => Member::Read(value),
            Err(_) => Member::Unreadable(raw.get().to_owned()),
        };
        let members = members.into_iter().map(|(name, raw)| (name, member(raw)));
        Ok(Self {
            members: members.collect(),
        })
    }

    /// Returns a member, by the names on the way to the member with dots between them; `None` for a
    /// missing member, for `null`, and for what cannot be read.
    fn member(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let Member::Read(first) = self.members.get(names.next()?)? else {
            return None;
        };
        let member = names.try_fold(first, |value, name| value.get(name))?;
        (!member.is_null()).then_some(member)
    }

    /// Returns the JSON of a member that cannot be read, or that is in such a member.
    fn unreadable(&self, path: &str) -> Option<&str> {
        match self.members.get(path.split('.').next()?)? {
            Member::Read(_) => None,
            Member::Unreadable(json) => Some(json),
        }
    }

    /// Returns a member that is a text; `None` also for an empty text. A number counts as its text, since some
    /// products write numbers as texts and texts as numbers.
    pub(super) fn text(&self, path: &str) -> Result<Option<String>, MemberFault> {
        if self.unreadable(path).is_some() {
            return Err(MemberFault(format!("The member {path} can't be read.")));
        }
        match self.member(path) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(MemberFault(format!("The member {path} is not a text."))),
        }
    }

    /// Returns a text without which the record is no link.
    pub(super) fn required_text(&self, path: &str) -> Result<String, MemberFault> {
        self.text(path)?.ok_or_else(|| MemberFault::missing(path))
    }

    /// Returns a member that is a list of texts. The report names elements that are none.
    pub(super) fn labels(&self, path: &str, changes: &mut Vec<Change>) -> Vec<String> {
        let why = "not a text";
        let mut labels = Vec::new();
        if let Some(json) = self.unreadable(path) {
            changes.push(Change::dropped("tag", json, why));
        }
        let list = match self.member(path) {
            Some(Value::Array(list)) => list.as_slice(),
            Some(other) => std::slice::from_ref(other),
            None => &[],
        };
        for element in list {
            match element {
                Value::String(text) => labels.push(text.clone()),
                Value::Number(number) => labels.push(number.to_string()),
                Value::Null => {}
                other @ (Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                    changes.push(Change::dropped("tag", &other.to_string(), why));
                }
            }
        }
        labels
    }

    /// Returns a label that is a text. The report names a label of another type.
    pub(super) fn label(
        &self,
        path: &str,
        what: &'static str,
        changes: &mut Vec<Change>,
    ) -> Option<String> {
        self.text(path).unwrap_or_else(|_| {
            let json = self.unreadable(path).map(ToOwned::to_owned);
            let json = json.or_else(|| Some(self.member(path)?.to_string()));
            changes.push(Change::dropped(
                what,
                &json.unwrap_or_default(),
                "not a text",
            ));
            None
        })
    }

    /// Returns true if a member says something: neither `false`, 0, nor empty.
    pub(super) fn is_set(&self, path: &str) -> bool {
        if self.unreadable(path).is_some() {
            return true;
        }
        self.member(path).is_some_and(says_something)
    }

    /// Returns the value of a member for the report; `None` if the member says nothing.
    pub(super) fn shown(&self, path: &str) -> Option<String> {
        if let Some(json) = self.unreadable(path) {
            return Some(json.to_owned());
        }
        let value = self.member(path).filter(|_| self.is_set(path))?;
        Some(
            value
                .as_str()
                .map_or_else(|| value.to_string(), ToOwned::to_owned),
        )
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Returns the refused record of a fault, with the texts that people find the record by.
    pub(super) fn broken(
        &self,
        number: usize,
        fault: MemberFault,
        [short_url, destination]: [&str; 2],
    ) -> RawRecord {
        let text = |path: &str| self.text(path).ok().flatten();
        RawRecord {
            number,
            short_url: text(short_url),
            destination_url: text(destination).unwrap_or_default(),
            refusal: Some(Refusal::broken(fault.0)),
            ..RawRecord::default()
        }
    }
}

impl MemberFault {
    pub(super) fn missing(path: &str) -> Self {
        Self(format!("The member {path} is missing or empty."))
    }

    pub(super) fn into_record(self, number: usize) -> RawRecord {
        RawRecord::broken(number, self.0)
    }
}

/// Returns false for `null`, `false`, 0, an empty value, and an object of such values.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && text != "0",
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => members.values().any(says_something),
    }
}

/// Reads a number, which PHP writes as a text.
pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Parses the documents of a text, one after the other: the pages of a list can be appended to one file.
pub(super) fn documents<'t, D: Deserialize<'t>>(
    text: &'t str,
    format: SourceFormat,
) -> Result<Vec<D>, SourceError> {
    let documents = Deserializer::from_str(text).into_iter();
    let documents: Vec<D> = documents
        .collect::<Result<_, _>>()
        .map_err(|error| refused(&error, text, format))?;
    if documents.is_empty() {
        return Err(format.unexpected("the file is empty", text));
    }
    Ok(documents)
}

/// Returns the error in words of the file: what the file is, and what is expected.
fn refused(error: &serde_json::Error, text: &str, format: SourceFormat) -> SourceError {
    let what = match text.trim_start().chars().next() {
        Some('<') => "this is HTML or XML, perhaps an error page".to_owned(),
        Some('{' | '[') => {
            let (line, column) = (error.line(), error.column());
            match error.classify() {
                Category::Data => "this JSON has other members".to_owned(),
                Category::Eof => format!("the JSON breaks off at line {line}, column {column}"),
                Category::Io | Category::Syntax => {
                    format!("this is no valid JSON: line {line}, column {column}")
                }
            }
        }
        _ if text
            .lines()
            .next()
            .is_some_and(|line| line.contains([',', ';', '\t'])) =>
        {
            "this is CSV".to_owned()
        }
        _ => "this is no JSON".to_owned(),
    };
    format.unexpected(&what, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::formats::tests::{change_lines, parsed};

    #[test]
    fn member_that_cannot_be_read_is_dropped_or_refuses_by_name() {
        let text = r#"{"data":[
            {"address":"a","link":"https://k.test/a","target":"https://e.com/","description":"x\ud83d","visit_count":1e999},
            {"address":"b","link":"https://k.test/b","target":"https://e.com/\udc00"}]}"#;
        let parsed = parsed(SourceFormat::Kutt, text);
        let [first, second] = &parsed.links[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(
            (first.link.slug.as_deref(), &first.refusal),
            (Some("a"), &None)
        );
        let lines = change_lines(first).join("\n");
        assert!(lines.contains("was dropped: not a text"), "{lines}");
        assert!(lines.contains("not carried over: visits 1e999"), "{lines}");
        assert_eq!(second.old_address.as_deref(), Some("https://k.test/b"));
        assert_eq!(
            second.refusal.as_ref().unwrap().detail,
            "The member target can't be read."
        );
    }
}
