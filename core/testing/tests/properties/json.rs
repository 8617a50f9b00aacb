//! Strict JSON.

use linkledger_core::json::{DEPTH_MAX, JsonObject};
use serde_json::{Map, Value};

/// An accepted text means the same to a lenient parser. A text that only the lenient parser accepts
/// is not an object, is too deep, or has duplicate members.
pub(crate) fn property(input: &[u8]) -> bool {
    let lenient: Option<Value> = serde_json::from_slice(input).ok();
    let Ok(object) = JsonObject::parse(input) else {
        assert!(lenient.is_none_or(|value| is_refused(&value, input)));
        return false;
    };
    let members = object.members();
    let value = Value::Object(members.clone());
    assert_eq!(lenient.as_ref(), Some(&value));
    assert!(!is_refused(&value, input) && is_sorted(&value));
    let respelled = serde_json::to_vec_pretty(&Reversed(members)).unwrap();
    // A float that is written and read again may become its neighbour.
    if !has_float(&value) {
        let respelled = JsonObject::parse(&respelled).unwrap();
        assert_eq!(respelled.fingerprint(), object.fingerprint());
    }
    true
}

fn is_refused(value: &Value, text: &[u8]) -> bool {
    !value.is_object() || depth(value) > DEPTH_MAX || member_count(value) != colon_count(text)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn depth(value: &Value) -> usize {
    let is_nested = value.is_array() || value.is_object();
    usize::from(is_nested) + children(value).into_iter().map(depth).max().unwrap_or(0)
}

fn member_count(value: &Value) -> usize {
    let inner: usize = children(value).into_iter().map(member_count).sum();
    inner + value.as_object().map_or(0, Map::len)
}

/// Number of colons: equal to the number of members of a well-formed text, including duplicates.
fn colon_count(text: &[u8]) -> usize {
    let (mut count, mut in_string) = (0, false);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => drop(bytes.next()),
            b':' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

fn is_sorted(value: &Value) -> bool {
    value
        .as_object()
        .is_none_or(|members| members.keys().is_sorted())
        && children(value).into_iter().all(is_sorted)
}

fn has_float(value: &Value) -> bool {
    value.is_f64() || children(value).into_iter().any(has_float)
}

/// Pairs in the reverse order of the map.
struct Reversed<'a>(&'a Map<String, Value>);

impl serde::Serialize for Reversed<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().rev())
    }
}

#[test]
fn accepted_text_equals_lenient_parse() {
    super::seeds::explore("json", property);
}
