//! JSON schemas of the domain's values, as strict as JSON Schema allows.

use serde_json::json;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type},
};

use crate::{
    id::{EntryId, LinkId},
    link::{Destination, Slug, destination, slug},
};

/// Regular expression that every accepted destination matches. The rules for hosts exceed a regular
/// expression.
const ADDRESS: &str = concat!(
    "^[Hh][Tt][Tt][Pp][Ss]?://",
    r"[^\u0000-$&-,/:-@\[-^`{-\u009F]+(:[0-9]*)?",
    r"([/?#][^\u0000-\u001F\u007F-\u009F\\]*)?$"
);

impl PartialSchema for LinkId {
    fn schema() -> RefOr<Schema> {
        let description = "Id of the link: opaque text that never changes.";
        id(Self::PATTERN, description, "lnk_01h455vb4pex5vsknk084sn02q")
    }
}

impl ToSchema for LinkId {}

impl PartialSchema for EntryId {
    fn schema() -> RefOr<Schema> {
        let description = "Id of the entry: opaque text that never changes.";
        id(Self::PATTERN, description, "ent_01h455vb4pex5vsknk084sn02s")
    }
}

impl ToSchema for EntryId {}

fn id(pattern: &str, description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .pattern(Some(pattern))
        .examples([json!(example)])
        .into()
}

impl PartialSchema for Slug {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(
                "The last part of the short link's path: letters, digits, `_` and `-`, beginning \
                 and ending with a letter or a digit. Shown as given and looked up case-insensitively. \
                 Some names are reserved.",
            ))
            .min_length(Some(slug::LENGTH_MIN))
            .max_length(Some(slug::LENGTH_MAX))
            .pattern(Some(slug::PATTERN))
            .examples([json!("Spring-26")])
            .into()
    }
}

impl ToSchema for Slug {}

impl PartialSchema for Destination {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("uri".to_owned())))
            .description(Some(
                "An absolute `http` or `https` address with a public host name: no user name or \
                 password, no IP address, port 80, 443 or from 1024 to 65535. It is stored, and \
                 sent to visitors, as the URL standard serialises it, in at most 2,048 bytes.",
            ))
            .max_length(Some(destination::LENGTH_MAX))
            .pattern(Some(ADDRESS))
            .examples([json!("https://example.com/offers?season=spring")])
            .into()
    }
}

impl ToSchema for Destination {}

/// Address of a short link.
pub struct ShortUrl;

impl PartialSchema for ShortUrl {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("uri".to_owned())))
            .description(Some(
                "Short address that visitors follow; its last part is the slug.",
            ))
            .examples([json!("https://sho.rt/Spring-26")])
            .into()
    }
}

impl ToSchema for ShortUrl {}

/// An instant in answers.
pub struct Timestamp;

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339 in UTC, with milliseconds."))
            .pattern(Some(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"))
            .examples([json!("2026-11-20T09:51:00.123Z")])
            .into()
    }
}

impl ToSchema for Timestamp {}
