//! Schemas of the members of requests, and examples of answers, for the OpenAPI document.

use linkledger_core::{
    account,
    api_key::Scope,
    credits::{BALANCE_MAX, LOW_BALANCE_MAX, REFERENCE_LENGTH_MAX},
    id::{AccountId, EntryId, KeyId},
    schemas::SentTimestamp,
};
use linkledger_http::request::ADMIN_KEY_LENGTH_MAX;
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::members::RETURN_URL_LENGTH_MAX;

pub(super) use linkledger_http::openapi::request_body::{body, reason, text};

/// Header `Idempotency-Key` of a POST.
pub(super) struct IdempotencyKey;

/// Account id in a path.
pub(super) struct AccountIdInPath;

/// Id of an API key in a path.
pub(super) struct KeyIdInPath;

/// External id of an account, in a path and in bodies.
pub(super) struct AccountExternalId;

/// Describes each type by the properties of its schema.
macro_rules! schemas {
    ($($type:ident: $properties:tt)+) => {
        $(
            impl ToSchema for $type {}

            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    schema(json!($properties))
                }
            }
        )+
    };
}

schemas! {
    IdempotencyKey: {
        "type": "string",
        "minLength": 1,
        "maxLength": ADMIN_KEY_LENGTH_MAX,
        "pattern": "^[!-~]([ -~]*[!-~])?$",
        "examples": ["invoice-2026-11-4711"],
    }
    AccountIdInPath: {
        "type": "string",
        "description": "Id of the account.",
        "pattern": AccountId::PATTERN,
        "examples": ["acc_01h455vb4pex5vsknk084sn02q"],
    }
    KeyIdInPath: {
        "type": "string",
        "description": "Id of the API key; not its secret.",
        "pattern": KeyId::PATTERN,
        "examples": ["key_01h455vb4pex5vsknk084sn02r"],
    }
    AccountExternalId: {
        "type": "string",
        "description": "Id of the account in your system; unique in the service.",
        "minLength": 1,
        "maxLength": account::EXTERNAL_ID_LENGTH_MAX,
        "pattern": account::EXTERNAL_ID_PATTERN,
        "examples": ["customers/4711"],
    }
}

/// Returns the schema of a whole number, with its least and its greatest value.
pub(super) fn number(
    description: &str,
    (minimum, maximum): (Option<i64>, Option<i64>),
    example: i64,
) -> RefOr<Schema> {
    let mut number = json!({
        "type": "integer",
        "format": "int64",
        "description": description,
        "examples": [example],
    });
    for (keyword, bound) in [("minimum", minimum), ("maximum", maximum)] {
        if let Some(bound) = bound {
            number[keyword] = json!(bound);
        }
    }
    schema(number)
}

/// Returns the schema of the thresholds of a balance.
pub(super) fn low_balance_at() -> RefOr<Schema> {
    schema(json!({
        "type": "array",
        "description": "Balances in credits: a charge that crosses one downwards is a message `credits.low` to webhooks. Replaces all earlier ones; `[]` removes them.",
        "maxItems": LOW_BALANCE_MAX,
        "items": { "type": "integer", "format": "int64", "minimum": 1, "maximum": BALANCE_MAX },
        "examples": [[10, 100]],
    }))
}

/// Returns the schema of a reference.
pub(super) fn reference() -> RefOr<Schema> {
    schema(json!({
        "type": "string",
        "description": "Reference in your system, such as the number of an invoice.",
        "minLength": 1,
        "maxLength": REFERENCE_LENGTH_MAX,
        "pattern": "^[ -~]+$",
        "examples": ["invoice-2026-11-4711"],
    }))
}

/// Returns the schema of a switch.
pub(super) fn switch(description: &str) -> RefOr<Schema> {
    schema(json!({ "type": "boolean", "description": description }))
}

/// Returns the schema of scopes.
pub(super) fn scopes() -> RefOr<Schema> {
    schema(json!({
        "type": "array",
        "description": "Permissions of the key.",
        "minItems": 1,
        "items": { "type": "string", "enum": Scope::ALL.map(Scope::name) },
        "examples": [[Scope::LinksWrite.name(), Scope::LinksRead.name()]],
    }))
}

/// Returns the schema of the address of the way back from the console.
pub(super) fn return_url() -> RefOr<Schema> {
    schema(json!({
        "type": "string",
        "description": "Address of your pages, to which the console shows a way back.",
        "maxLength": RETURN_URL_LENGTH_MAX,
        "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://.",
        "examples": ["https://shop.example.com/account"],
    }))
}

/// Returns the schema of an expiry.
pub(super) fn expiry() -> RefOr<Schema> {
    let mut value = serde_json::to_value(SentTimestamp::schema()).expect("a schema");
    value["description"] =
        json!("Instant in the future from which the key is refused: RFC 3339 with any offset.");
    schema(value)
}

/// Returns the schema of the hash of a secret.
pub(super) fn secret_sha256() -> RefOr<Schema> {
    schema(json!({
        "type": "string",
        "description": "SHA-256 of a secret that you have made, in hexadecimal digits: then the answer has no secret. The secret must be well-formed: `llk_`, 30 characters of base62, and their CRC32 in 6 more.",
        "pattern": "^[0-9A-Fa-f]{64}$",
    }))
}

/// Returns the schema of the id of an API key.
pub(super) fn key_id(description: &str) -> RefOr<Schema> {
    schema(json!({
        "type": "string",
        "description": description,
        "pattern": KeyId::PATTERN,
        "examples": ["key_01h455vb4pex5vsknk084sn02q"],
    }))
}

/// Returns the schema of the id of an entry.
pub(super) fn entry_id(description: &str) -> RefOr<Schema> {
    schema(json!({
        "type": "string",
        "description": description,
        "pattern": EntryId::PATTERN,
        "examples": ["ent_01h455vb4pex5vsknk084sn02s"],
    }))
}

fn schema(properties: Value) -> RefOr<Schema> {
    serde_json::from_value(properties).expect("a schema")
}

/// Returns an entry of a ledger as answers show it, with further members.
pub(super) fn example_entry(members: Value) -> Value {
    let mut entry = json!({
        "id": "ent_01h455vb4pex5vsknk084sn02s",
        "created_at": "2026-11-20T09:51:00.123Z",
    });
    if let (Some(entry), Value::Object(members)) = (entry.as_object_mut(), members) {
        entry.extend(members);
    }
    entry
}
