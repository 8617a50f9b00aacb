//! JSON schemas of the domain's values, as strict as JSON Schema allows for requests; answers lose what refuses values.

use serde_json::json;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::{
    id::{EntryId, LinkId},
    link::{Destination, Slug, destination, details, slug, tag},
};

/// Regular expression that every accepted destination matches. The rules exceed a regular expression.
const ADDRESS: &str = r"^[A-Za-z][A-Za-z0-9+.-]*:[^\u0000-\u001F\u007F-\u009F]+$";

/// Address of a short link.
pub struct ShortUrl;

/// An instant in answers.
pub struct Timestamp;

/// An instant in requests.
pub struct SentTimestamp;

/// Title of a link.
pub struct Title;

/// Id of a link in the owner's system.
pub struct ExternalId;

/// Tags of a link.
pub struct TagSet;

/// Describes each type by the properties of its schema.
macro_rules! schemas {
    ($($type:ident: $properties:tt)+) => {
        $(
            impl ToSchema for $type {}

            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    serde_json::from_value(json!($properties)).expect("a schema")
                }
            }
        )+
    };
}

schemas! {
    LinkId: {
        "type": "string",
        "description": "Id of the link: opaque text that never changes.",
        "pattern": Self::PATTERN,
        "examples": ["lnk_01h455vb4pex5vsknk084sn02q"],
    }
    EntryId: {
        "type": "string",
        "description": "Id of the entry: opaque text that never changes.",
        "pattern": Self::PATTERN,
        "examples": ["ent_01h455vb4pex5vsknk084sn02s"],
    }
    Slug: {
        "type": "string",
        "description": "The last part of the short link's path: letters, digits, `.`, `_` and `-`, beginning and ending with a letter or a digit. Shown as given and looked up case-insensitively. Some names are reserved.",
        "minLength": slug::LENGTH_MIN,
        "maxLength": slug::LENGTH_MAX,
        "pattern": slug::PATTERN,
        "examples": ["Spring-26"],
    }
    Destination: {
        "type": "string",
        // Not `uri`: the URL standard allows characters that RFC 3986 does not, and types of URIs refuse them.
        "format": "url",
        "description": "An absolute address, by default `http` or `https` with a public host name: no user name or password, no IP address, port 80, 443 or from 1024 to 65535. An installation may accept further schemes or hosts. It is stored, and sent to visitors, as the URL standard serialises it, in at most 8,192 bytes.",
        "maxLength": destination::LENGTH_MAX,
        "pattern": ADDRESS,
        "examples": ["https://example.com/offers?season=spring"],
    }
    ShortUrl: {
        "type": "string",
        "format": "uri",
        "description": "Short address that visitors follow; its last part is the slug.",
        "examples": ["https://sho.rt/Spring-26"],
    }
    Timestamp: {
        "type": "string",
        "format": "date-time",
        "description": "RFC 3339 in UTC, with milliseconds.",
        "examples": ["2026-11-20T09:51:00.123Z"],
    }
    SentTimestamp: {
        "type": "string",
        "format": "date-time",
        "description": "RFC 3339 with any offset; fractions of a millisecond are dropped.",
        "examples": ["2099-12-31T23:59:59Z"],
    }
    Title: {
        "type": "string",
        "description": "Title for people, without control characters. Visitors do not see it.",
        "minLength": 1,
        "maxLength": details::TITLE_LENGTH_MAX,
        "pattern": details::TITLE_PATTERN,
        "examples": ["Spring offers"],
    }
    ExternalId: {
        "type": "string",
        "description": "Id of the link in your system; unique among the links of the account that are not deleted.",
        "minLength": 1,
        "maxLength": details::EXTERNAL_ID_LENGTH_MAX,
        "pattern": details::EXTERNAL_ID_PATTERN,
        "examples": ["offers/2026-spring"],
    }
    TagSet: {
        "type": "array",
        "description": "Tags, sorted, each once, in lower case.",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": tag::TAG_LENGTH_MAX,
            "pattern": tag::TAG_PATTERN,
        },
        "maxItems": tag::TAGS_MAX,
        "examples": [["offers", "spring"]],
    }
}

/// Returns the schema of values that may also be null.
pub fn or_null(schema: &RefOr<Schema>) -> RefOr<Schema> {
    let mut schema = serde_json::to_value(schema).expect("a schema");
    schema["type"] = json!([schema["type"], "null"]);
    serde_json::from_value(schema).expect("a schema")
}
