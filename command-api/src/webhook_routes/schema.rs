//! Schemas of the requests about webhooks, for the OpenAPI documents.

use linkledger_core::{
    id::{DeliveryId, EventId, WebhookId},
    schemas::{SentTimestamp, or_null},
    webhook::{MessageType, OVERLAP_HOURS_MAX, URL_LENGTH_MAX},
};
use linkledger_http::openapi::request_body::{body, text};
use serde_json::{Value, json};
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        path::{Parameter, ParameterIn},
    },
};

use super::members::{DESCRIPTION, ENABLED, FROM, IN_ORDER, OVERLAP_HOURS, TO, TYPES, URL};
use crate::{
    admin::webhook::OVERLAP_HOURS_DEFAULT, admin_routes::AFTER,
    routes::create_link::IdempotencyKeyHeader,
};

/// Readers of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// Owners of accounts.
    Owners,
    /// Operators, whose webhooks receive messages about all accounts.
    Operators,
}

/// Id of a webhook in a path.
pub(super) struct WebhookIdInPath;

/// Id of a delivery in a path.
pub(super) struct DeliveryIdInPath;

impl ToSchema for WebhookIdInPath {}

impl PartialSchema for WebhookIdInPath {
    fn schema() -> RefOr<Schema> {
        schema(json!({
            "type": "string",
            "description": "Id of the webhook.",
            "pattern": WebhookId::PATTERN,
            "examples": ["whe_01h455vb4pex5vsknk084sn02q"],
        }))
    }
}

impl ToSchema for DeliveryIdInPath {}

impl PartialSchema for DeliveryIdInPath {
    fn schema() -> RefOr<Schema> {
        schema(json!({
            "type": "string",
            "description": "Id of the delivery.",
            "pattern": DeliveryId::PATTERN,
            "examples": ["dlv_01h455vb4pex5vsknk084sn02r"],
        }))
    }
}

/// Header `Idempotency-Key`, which may be missing.
pub(super) struct OptionalKey;

impl IntoParams for OptionalKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameters = json!([{
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A UUID, the same one for each retry of a request; without it, each retry has an effect.",
            "required": false,
            "schema": IdempotencyKeyHeader::schema(),
        }]);
        serde_json::from_value(parameters).expect("parameters")
    }
}

/// Returns the schema of the body of a creation.
pub(super) fn creation(audience: Audience) -> RefOr<Schema> {
    let members = [
        (URL, url()),
        (TYPES, types(audience)),
        (DESCRIPTION, description()),
        (IN_ORDER, in_order()),
    ];
    body(&members, &[URL])
}

/// Returns the schema of the merge patch of a change.
pub(super) fn patch(audience: Audience) -> RefOr<Schema> {
    let enabled = "False to stop the messages; true to go on where they have stopped.";
    let members = [
        (URL, url()),
        (TYPES, types(audience)),
        (DESCRIPTION, or_null(&description())),
        (ENABLED, switch(enabled)),
        (IN_ORDER, in_order()),
    ];
    body(&members, &[])
}

/// Returns the schema of the body of a rotation.
pub(super) fn rotation() -> RefOr<Schema> {
    let overlap = schema(json!({
        "type": "integer",
        "description": "Hours for which messages are also signed with the secret before.",
        "minimum": 0,
        "maximum": OVERLAP_HOURS_MAX,
        "default": OVERLAP_HOURS_DEFAULT,
    }));
    body(&[(OVERLAP_HOURS, overlap)], &[])
}

/// Returns the schema of the body of a replay.
pub(super) fn replay() -> RefOr<Schema> {
    let after = schema(json!({
        "type": "string",
        "description": "Event after which the replay starts; not together with `from`.",
        "pattern": EventId::PATTERN,
        "examples": ["evt_01h455vb4pex5vsknk084sn02s"],
    }));
    let from = instant("Instant at which the replay starts; not together with `after`.");
    let to = instant("Instant before which the replay ends; by default now.");
    body(&[(FROM, from), (AFTER, after), (TO, to)], &[])
}

fn url() -> RefOr<Schema> {
    schema(json!({
        "type": "string",
        "format": "webhook-url",
        "description": "Address that receives the messages: `https`, with a public host name. Operators can allow private networks, whose addresses may be `http` too.",
        "maxLength": URL_LENGTH_MAX,
        "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://.",
        "examples": ["https://shop.example.com/hooks"],
    }))
}

fn types(audience: Audience) -> RefOr<Schema> {
    let types = MessageType::subscribable();
    let of_audience = types.filter(|it| audience == Audience::Operators || !it.is_for_operators());
    let names: Vec<&str> = of_audience.map(MessageType::name).collect();
    schema(json!({
        "type": "array",
        "description": "Types of the messages; empty for all types but `link.clicks`, also those of later releases.",
        "items": { "type": "string", "enum": names },
        "examples": [["link.created", "link.deleted"]],
    }))
}

fn description() -> RefOr<Schema> {
    text("Description for people", "shop")
}

fn in_order() -> RefOr<Schema> {
    switch(
        "True to send messages in the order of the events: up to 100 in a request, and one request at a time.",
    )
}

fn switch(description: &str) -> RefOr<Schema> {
    schema(json!({ "type": "boolean", "description": description }))
}

fn instant(description: &str) -> RefOr<Schema> {
    let mut value = serde_json::to_value(SentTimestamp::schema()).expect("a schema");
    value["description"] = json!(description);
    schema(value)
}

fn schema(properties: Value) -> RefOr<Schema> {
    serde_json::from_value(properties).expect("a schema")
}
