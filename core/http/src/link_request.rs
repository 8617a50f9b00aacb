//! Bodies of requests about links in the OpenAPI document: of a create, of a batch and of a change
//! (`docs/api.md#links`). The parsers are in `link::members` and `commands::batch_request`.

use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, Type,
        schema::AdditionalProperties,
    },
};

use linkledger_core::schemas::{ExternalId, SentTimestamp, Title, or_null};
use linkledger_core::{
    commands::batch_request::{IDEMPOTENCY_KEY, ITEMS, ITEMS_MAX, MODE, RequestMode},
    link::{
        Destination, Slug,
        members::{
            DESTINATION_URL, DISABLED, EXPIRED_URL, EXPIRES_AT, EXTERNAL_ID, SLUG, TAGS, TITLE,
        },
    },
};

/// Body of a create in the OpenAPI document.
#[derive(Debug)]
pub struct LinkCreate;

impl PartialSchema for LinkCreate {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property(DESTINATION_URL, sent_destination())
            .required(DESTINATION_URL)
            .property(SLUG, Slug::schema())
            .property(TITLE, Title::schema())
            .property(EXTERNAL_ID, ExternalId::schema())
            .property(TAGS, sent_tags())
            .property(EXPIRES_AT, sent_expiry())
            .property(EXPIRED_URL, sent_expired_url())
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .into()
    }
}

impl ToSchema for LinkCreate {}

impl LinkCreate {
    /// Returns the example of the `OpenAPI` document, with all members. Tests create links from the
    /// example.
    pub fn example() -> Value {
        json!({
            DESTINATION_URL: "https://example.com/offers?season=spring",
            SLUG: "Spring-26",
            TITLE: "Spring offers",
            EXTERNAL_ID: "offers/2026-spring",
            TAGS: ["offers", "spring"],
            EXPIRES_AT: "2099-12-31T23:59:59.000Z",
            EXPIRED_URL: "https://example.com/offers",
        })
    }
}

/// Item of a batch in the OpenAPI document: a create with its idempotency key.
#[derive(Debug)]
pub struct BatchItem;

impl PartialSchema for BatchItem {
    fn schema() -> RefOr<Schema> {
        let key = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("uuid".to_owned())))
            .description(Some(
                "A UUID with hyphens: a new one for each new link, the same one for each retry, \
                 alone or in a batch.",
            ));
        let mut schema = LinkCreate::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            object
                .properties
                .insert(IDEMPOTENCY_KEY.to_owned(), key.into());
            object.required.push(IDEMPOTENCY_KEY.to_owned());
        }
        schema
    }
}

impl ToSchema for BatchItem {}

/// Body of a batch in the OpenAPI document.
#[derive(Debug)]
pub struct LinkBatch;

impl PartialSchema for LinkBatch {
    fn schema() -> RefOr<Schema> {
        let modes = RequestMode::NAMES.map(|(name, _)| name);
        let mode = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(modes))
            // Not as `default`: openapi-typescript makes members with a default required.
            .description(Some(format!(
                "What a refused item does to the others. Default: `{}`.",
                modes[0]
            )));
        let items = ArrayBuilder::new()
            .items(Ref::from_schema_name(BatchItem::name()))
            .min_items(Some(1))
            .max_items(Some(ITEMS_MAX));
        ObjectBuilder::new()
            .property(MODE, mode)
            .property(ITEMS, items)
            .required(ITEMS)
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .into()
    }
}

impl ToSchema for LinkBatch {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((BatchItem::name().into_owned(), BatchItem::schema()));
    }
}

impl LinkBatch {
    /// Returns the example of the `OpenAPI` document: two items, the first with all members.
    pub fn example(mode: &str) -> Value {
        let mut item = LinkCreate::example();
        item[IDEMPOTENCY_KEY] = "0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0".into();
        json!({
            MODE: mode,
            ITEMS: [item, {
                IDEMPOTENCY_KEY: "8394a5b6-c7d8-4e9f-80b1-c2d3e4f50172",
                DESTINATION_URL: "https://example.com/",
            }],
        })
    }
}

/// Merge patch in the OpenAPI document.
#[derive(Debug)]
pub struct LinkPatch;

impl PartialSchema for LinkPatch {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property(DESTINATION_URL, sent_destination())
            .property(TITLE, or_null(&Title::schema()))
            .property(EXTERNAL_ID, or_null(&ExternalId::schema()))
            .property(TAGS, or_null(&sent_tags()))
            .property(EXPIRES_AT, or_null(&sent_expiry()))
            .property(EXPIRED_URL, or_null(&sent_expired_url()))
            .property(DISABLED, or_null(&disabled()))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .into()
    }
}

impl ToSchema for LinkPatch {}

impl LinkPatch {
    /// Returns the example of the `OpenAPI` document.
    pub fn example() -> Value {
        json!({
            DESTINATION_URL: "https://example.com/offers?season=summer",
            TITLE: "Summer offers",
            EXPIRES_AT: null,
        })
    }
}

/// Returns the schema of a destination in a request. The schema has no maximum length: the limit
/// counts the serialised destination, which may be shorter than the sent text.
fn sent_destination() -> RefOr<Schema> {
    let mut schema = Destination::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        object.max_length = None;
    }
    schema
}

/// Returns the schema of tags in a request. A regular expression with letters of all scripts has no form that all
/// readers of the document know.
fn sent_tags() -> RefOr<Schema> {
    let tag = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::Custom("tag".to_owned())))
        .min_length(Some(1));
    ArrayBuilder::new()
        .description(Some(
            "Up to 20 tags in any order: letters and digits of any script, spaces and . _ : - + # & / ', beginning with \
             a letter or a digit, up to 64 characters. They are stored in lower case, with single spaces; tags that \
             become equal are one.",
        ))
        .items(tag)
        .examples([json!(["spring", "offers"])])
        .into()
}

/// Returns the schema of an expiry in a request.
fn sent_expiry() -> RefOr<Schema> {
    described(
        SentTimestamp::schema(),
        "Instant from which the link no longer leads to its destination, at most 100 years ahead. \
         Visitors then receive 410, or a redirect to `expired_url`. RFC 3339 with any offset; \
         fractions of a millisecond are dropped.",
    )
}

/// Returns the schema of a destination after the expiry in a request.
fn sent_expired_url() -> RefOr<Schema> {
    described(
        sent_destination(),
        "Address of the redirect after `expires_at`, by the rules of `destination_url`. Removed \
         with `expires_at`.",
    )
}

/// Returns the schema of the switch of the service in a request.
fn disabled() -> RefOr<Schema> {
    described(
        bool::schema(),
        "True takes the link out of service: visitors receive 410. False or null put the link back, \
         unless an operator has disabled it too.",
    )
}

fn described(mut schema: RefOr<Schema>, description: &str) -> RefOr<Schema> {
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        object.description = Some(description.to_owned());
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::link_body::LinkBody;
    use linkledger_core::{
        commands::batch_request::BatchRequest,
        field::FieldCode,
        json::JsonObject,
        link::{
            DestinationRules,
            members::{NEW_LINK, parse_new_link, parse_patch},
        },
    };

    fn names(object: &Value) -> BTreeSet<String> {
        object.as_object().unwrap().keys().cloned().collect()
    }

    fn properties<T: PartialSchema>() -> BTreeSet<String> {
        names(&serde_json::to_value(T::schema()).unwrap()["properties"])
    }

    fn object(body: &Value) -> JsonObject {
        JsonObject::parse(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn new_link_has_the_members_of_the_parser() {
        let parsed: BTreeSet<String> = NEW_LINK.iter().map(ToString::to_string).collect();
        assert_eq!(properties::<LinkCreate>(), parsed);
        assert_eq!(names(&LinkCreate::example()), parsed);
        parse_new_link(
            &object(&LinkCreate::example()),
            &DestinationRules::default(),
        )
        .unwrap();
    }

    #[test]
    fn examples_of_batch_are_accepted() {
        for (mode, _) in RequestMode::NAMES {
            let request = BatchRequest::parse(object(&LinkBatch::example(mode))).unwrap();
            for item in request.items {
                parse_new_link(&item.body, &DestinationRules::default()).unwrap();
            }
        }
    }

    #[test]
    fn patch_has_all_members_but_the_slug() {
        let mut expected = properties::<LinkCreate>();
        expected.remove(SLUG);
        expected.insert(DISABLED.to_owned());
        assert_eq!(properties::<LinkPatch>(), expected);
        parse_patch(&object(&LinkPatch::example()), &DestinationRules::default()).unwrap();
    }

    #[test]
    fn patch_names_members_that_cannot_change() {
        let mut patch = LinkBody::example();
        for name in properties::<LinkPatch>() {
            patch.as_object_mut().unwrap().remove(&name);
        }
        let immutable = patch.as_object().unwrap().len();
        let errors = parse_patch(&object(&patch), &DestinationRules::default()).unwrap_err();
        for error in &errors {
            assert_eq!(error.code, FieldCode::FieldNotMutable, "{}", error.pointer);
        }
        assert_eq!(errors.len(), immutable);
    }
}
