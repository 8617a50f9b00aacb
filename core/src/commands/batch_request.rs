//! Body of a request that creates several links: mode, and items with their keys
//! (`docs/api.md#batches`). The members of the items are parsed like the body of a create.

use std::collections::HashSet;

use serde_json::Value;

use super::IdempotencyKey;
use crate::{
    field::{ERRORS_MAX, FieldCode, FieldError, ITEM_ERRORS_MAX, most_useful},
    json::JsonObject,
    link::members::{DESTINATION_URL, EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, SLUG, TAGS, TITLE},
};

/// Name of the member with the mode.
pub const MODE: &str = "mode";
/// Name of the member with the items.
pub const ITEMS: &str = "items";
/// Name of the member of an item with its idempotency key.
pub const IDEMPOTENCY_KEY: &str = "idempotency_key";
/// Members of an item.
const ITEM: &[&str] = &[
    IDEMPOTENCY_KEY,
    DESTINATION_URL,
    SLUG,
    TITLE,
    EXTERNAL_ID,
    TAGS,
    EXPIRES_AT,
    EXPIRED_URL,
];
/// Maximum number of items of a request.
pub const ITEMS_MAX: usize = 100;

/// Effect of the items of a request on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestMode {
    /// Each item is decided like a create of its own.
    Partial,
    /// All items have their effect, or none.
    Atomic,
    /// No item has an effect.
    DryRun,
}

impl RequestMode {
    /// Names of the modes, the default first.
    pub const NAMES: [(&str, Self); 3] = [
        ("partial", Self::Partial),
        ("atomic", Self::Atomic),
        ("dry_run", Self::DryRun),
    ];
}

/// A request that creates several links.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    /// Effect of the items on each other.
    pub mode: RequestMode,
    /// Items, 1 to [`ITEMS_MAX`], with different keys.
    pub items: Vec<RequestItem>,
}

/// An item of a request.
#[derive(Debug, Clone)]
pub struct RequestItem {
    /// Idempotency key of the item.
    pub key: IdempotencyKey,
    /// The other members: the body of a create. Its fingerprint is that of the same create in a
    /// request of its own, so that a key replays across both.
    pub body: JsonObject,
}

impl BatchRequest {
    /// Returns the errors of an item's other members as its answer has them.
    pub fn errors_of_item(errors: Vec<FieldError>) -> Vec<FieldError> {
        let of_item = |error: FieldError| match error.members {
            [] => error,
            [..] => FieldError {
                members: ITEM,
                ..error
            },
        };
        let errors = errors.into_iter().map(of_item).collect();
        most_useful(errors, ITEM_ERRORS_MAX)
    }

    /// Parses a body.
    ///
    /// # Errors
    /// Returns all errors of the body's members, of the number of items, and of the items' keys. Does
    /// not check the other members of items.
    pub fn parse(object: JsonObject) -> Result<Self, Vec<FieldError>> {
        let mut members = object.into_members();
        let mut errors = Vec::new();
        let mode = members.remove(MODE).map_or(Ok(RequestMode::Partial), mode);
        let mode = mode.map_err(|code| errors.push(FieldError::of_member(MODE, code)));
        let items = members
            .remove(ITEMS)
            .map_or(Err(FieldCode::Required), items);
        let items = items.map_err(|code| errors.push(FieldError::of_member(ITEMS, code)));
        let items = keyed(items.unwrap_or_default(), &mut errors);
        let unknown = members.keys();
        errors.extend(unknown.map(|name| FieldError::of_unknown_member(name, &[MODE, ITEMS])));
        match mode {
            Ok(mode) if errors.is_empty() => Ok(Self { mode, items }),
            Ok(_) | Err(()) => {
                errors.truncate(ERRORS_MAX);
                Err(errors)
            }
        }
    }
}

fn mode(value: Value) -> Result<RequestMode, FieldCode> {
    let Value::String(name) = value else {
        return Err(of_wrong_type(&value));
    };
    let mut modes = RequestMode::NAMES.into_iter();
    let mode = modes.find(|(known, _)| *known == name);
    mode.map(|(_, mode)| mode).ok_or(FieldCode::ModeInvalid)
}

fn items(value: Value) -> Result<Vec<Value>, FieldCode> {
    match value {
        Value::Array(items) if (1..=ITEMS_MAX).contains(&items.len()) => Ok(items),
        Value::Array(_) => Err(FieldCode::ItemCountInvalid),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err(of_wrong_type(&value))
        }
    }
}

/// Takes the keys out of the items. Adds an error for each item without a key of its own.
fn keyed(items: Vec<Value>, errors: &mut Vec<FieldError>) -> Vec<RequestItem> {
    let mut keys = HashSet::new();
    let items = items.into_iter().enumerate().filter_map(|(index, item)| {
        let Value::Object(mut members) = item else {
            errors.push(FieldError::of_item(index, FieldCode::WrongType));
            return None;
        };
        let key = members.remove(IDEMPOTENCY_KEY);
        let key = key.map_or(Err(FieldCode::Required), idempotency_key);
        let key = key.and_then(|key| {
            let is_first = keys.insert(key);
            is_first
                .then_some(key)
                .ok_or(FieldCode::IdempotencyKeyDuplicate)
        });
        match key {
            Ok(key) => Some(RequestItem {
                key,
                body: members.into(),
            }),
            Err(code) => {
                errors.push(FieldError::of_member(IDEMPOTENCY_KEY, code).in_item(index));
                None
            }
        }
    });
    items.collect()
}

fn idempotency_key(value: Value) -> Result<IdempotencyKey, FieldCode> {
    let Value::String(text) = value else {
        return Err(of_wrong_type(&value));
    };
    IdempotencyKey::parse_uuid(&text).ok_or(FieldCode::IdempotencyKeyInvalid)
}

const fn of_wrong_type(value: &Value) -> FieldCode {
    match value {
        Value::Null => FieldCode::NullNotAllowed,
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => FieldCode::WrongType,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::link::members::NEW_LINK;

    const KEY: &str = "0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0";

    fn parse(body: &Value) -> Result<BatchRequest, Vec<(String, &'static str)>> {
        let object = JsonObject::parse(body.to_string().as_bytes()).unwrap();
        BatchRequest::parse(object).map_err(|errors| {
            let errors = errors.into_iter();
            errors
                .map(|error| (error.pointer, error.code.as_str()))
                .collect()
        })
    }

    fn errors(body: &Value) -> Vec<(String, &'static str)> {
        parse(body).err().unwrap_or_default()
    }

    #[test]
    fn fingerprint_of_item_equals_single_create() {
        let body = json!({ "slug": "abc", "destination_url": "https://example.com/" });
        let mut item = body.clone();
        item["idempotency_key"] = KEY.to_uppercase().into();
        let request = parse(&json!({ "items": [item] })).unwrap();
        assert_eq!(request.mode, RequestMode::Partial);
        let single = JsonObject::parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(request.items[0].body.fingerprint(), single.fingerprint());
        assert_eq!(Some(request.items[0].key), IdempotencyKey::parse(KEY));
    }

    #[test]
    fn faults_of_mode_and_items_are_reported_together() {
        let error = |pointer: &str, code| (pointer.to_owned(), code);
        assert_eq!(errors(&json!({})), [error("#/items", "required")]);
        let body = json!({ "mode": "Atomic", "items": [], "Mode": 1 });
        assert_eq!(
            errors(&body),
            [
                error("#/mode", "mode_invalid"),
                error("#/items", "item_count_invalid"),
                error("#/Mode", "unknown_field"),
            ]
        );
        let body = json!({ "mode": null, "items": {} });
        assert_eq!(
            errors(&body),
            [
                error("#/mode", "null_not_allowed"),
                error("#/items", "wrong_type"),
            ]
        );
    }

    #[test]
    fn item_has_the_members_of_a_create_and_its_key() {
        assert_eq!(ITEM.split_first(), Some((&IDEMPOTENCY_KEY, NEW_LINK)));
        let many =
            (0..99).map(|number| FieldError::of_unknown_member(&format!("a{number}"), NEW_LINK));
        let known = FieldError::of_member(TITLE, FieldCode::TitleInvalid);
        let errors = BatchRequest::errors_of_item(many.chain([known.clone()]).collect());
        assert_eq!(errors.len(), ITEM_ERRORS_MAX);
        assert_eq!(errors[ITEM_ERRORS_MAX - 1], known);
        assert_eq!(errors[0].members, ITEM);
    }

    #[test]
    fn every_item_needs_key_of_its_own() {
        let body = json!({ "mode": "atomic", "items": [
            { "idempotency_key": KEY },
            [],
            {},
            { "idempotency_key": null },
            { "idempotency_key": 1 },
            { "idempotency_key": KEY.replace('-', "") },
            { "idempotency_key": format!("\"{KEY}\"") },
            { "idempotency_key": KEY.to_uppercase() },
        ] });
        let expected = [
            ("#/items/1", "wrong_type"),
            ("#/items/2/idempotency_key", "required"),
            ("#/items/3/idempotency_key", "null_not_allowed"),
            ("#/items/4/idempotency_key", "wrong_type"),
            ("#/items/5/idempotency_key", "idempotency_key_invalid"),
            ("#/items/6/idempotency_key", "idempotency_key_invalid"),
            ("#/items/7/idempotency_key", "idempotency_key_duplicate"),
        ];
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code));
        assert_eq!(errors(&body), expected);
    }

    #[test]
    fn wrong_type_names_item_and_type() {
        let details = |body: &Value| {
            let object = JsonObject::parse(body.to_string().as_bytes()).unwrap();
            let errors = BatchRequest::parse(object).unwrap_err().into_iter();
            errors.map(|error| error.detail()).collect::<Vec<_>>()
        };
        let body = json!({ "mode": 1, "items": [[], { "idempotency_key": 1 }] });
        assert_eq!(
            details(&body),
            [
                "The member mode must be a string.",
                "The member items/0 must be an object.",
                "The member items/1/idempotency_key must be a string.",
            ]
        );
        assert_eq!(
            details(&json!({ "items": {} })),
            ["The member items must be an array of objects."]
        );
    }

    #[test]
    fn number_of_items_is_bounded() {
        let item =
            |number: u128| json!({ "idempotency_key": uuid::Uuid::from_u128(number).to_string() });
        let body = |count: u128| json!({ "items": (0..count).map(item).collect::<Vec<_>>() });
        assert_eq!(parse(&body(100)).unwrap().items.len(), ITEMS_MAX);
        let expected = [("#/items".to_owned(), "item_count_invalid")];
        assert_eq!(errors(&body(101)), expected);
    }
}
