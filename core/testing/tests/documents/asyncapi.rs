//! Generates `docs/asyncapi.json`: the streams of events and of clicks as an `AsyncAPI` 3.0 document.

use std::collections::BTreeSet;

use linkledger_core::{
    cloud_event::{PublishedEvent, RecordKey, TOPIC},
    envelope::{Metadata, RecordedEvent},
    event::{Event, Subject},
    id::{AccountId, EventId, LinkId},
    link::{ExistingLink, LinkEvent},
    shard::{SHARD_COUNT, Shard},
};
use serde_json::{Map, Value, json};
use time::macros::datetime;
use uuid::Uuid;

use super::{assert_committed, clicks, schemas::all_schemas};

const INFO: &str = include_str!("asyncapi/info.md");
const CHANNEL: &str = include_str!("asyncapi/channel.md");
/// Version of the JSON Schemas of `AsyncAPI`'s bindings for Kafka.
pub(super) const BINDING_VERSION: &str = "0.5.0";

fn document() -> Value {
    let mut messages = Map::new();
    let mut payloads = Map::new();
    let mut of_channel = Map::new();
    let mut of_operation = Vec::new();
    for (event_type, version, schema) in all_schemas() {
        let name = format!("{event_type}.v{version}");
        messages.insert(name.clone(), message(event_type, version, &schema));
        payloads.insert(name.clone(), payload(schema));
        let reference = json!({ "$ref": format!("#/components/messages/{name}") });
        of_channel.insert(name.clone(), reference);
        let reference = json!({ "$ref": format!("#/channels/events/messages/{name}") });
        of_operation.push(reference);
    }
    messages.insert(clicks::NAME.to_owned(), clicks::message());
    payloads.insert(clicks::NAME.to_owned(), payload(clicks::schema()));
    json!({
        "asyncapi": "3.0.0",
        "id": "urn:linkledger:events:v1",
        "info": {
            "title": "linkledger events and clicks",
            "version": "1.0.0",
            "description": INFO,
            "license": { "name": "Apache-2.0" },
        },
        "defaultContentType": "application/json",
        "channels": { "events": {
            "address": TOPIC,
            "title": "Every event of the log",
            "description": CHANNEL,
            "messages": of_channel,
            "bindings": { "kafka": {
                "topic": TOPIC,
                "partitions": SHARD_COUNT,
                "topicConfiguration": { "cleanup.policy": ["delete"] },
                "bindingVersion": BINDING_VERSION,
            } },
        }, "clicks": clicks::channel() },
        "operations": { "publish_events": {
            "action": "send",
            "channel": { "$ref": "#/channels/events" },
            "summary": "linkledger publishes each event after it is committed.",
            "messages": of_operation,
        }, "publish_clicks": clicks::operation() },
        "components": { "messages": messages, "schemas": payloads },
    })
}

fn message(event_type: &str, version: i16, schema: &Value) -> Value {
    let description = schema["description"].as_str().expect("every event has one");
    let (summary, _) = description.split_once("\n\n").unwrap_or((description, ""));
    let example = &schema["examples"][0];
    let headers = headers(event_type, version, example);
    json!({
        "name": format!("linkledger.{event_type}.v{version}"),
        "title": event_type,
        "summary": summary,
        "description": description,
        "contentType": "application/json",
        "headers": header_schema(event_type, version, example),
        "payload": { "$ref": format!("#/components/schemas/{event_type}.v{version}") },
        "bindings": { "kafka": {
            "key": {
                "type": "string",
                "description": "Account that the event concerns.",
                "pattern": AccountId::PATTERN,
            },
            "bindingVersion": BINDING_VERSION,
        } },
        "examples": [{ "headers": headers, "payload": example }],
    })
}

/// Returns a schema inside the document, whose dialect is `AsyncAPI`'s own.
fn payload(mut schema: Value) -> Value {
    let members = schema.as_object_mut().expect("it is an object");
    members.retain(|name, _| !name.starts_with('$'));
    schema
}

fn header_schema(event_type: &str, version: i16, example: &Value) -> Value {
    let event = Event::from_stored(event_type, version, &example.to_string()).expect("an event");
    let subject = match event.subject() {
        Subject::Link(_) => LinkId::PATTERN,
        Subject::Account(_) => AccountId::PATTERN,
    };
    let text = |description: &str, pattern: &str| json!({ "type": "string", "description": description, "pattern": pattern });
    let fixed = |description: &str, value: String| json!({ "type": "string", "description": description, "const": value });
    let number = "^[1-9][0-9]*$";
    let mut headers = json!({
        "content-type": fixed("Media type of the value.", "application/json".to_owned()),
        "ce_specversion": fixed("Version of CloudEvents.", "1.0".to_owned()),
        "ce_type": fixed(
            "Type of the event, and the version of the payload's schema.",
            format!("linkledger.{event_type}.v{version}"),
        ),
        "ce_dataschema": fixed(
            "`$id` of the payload's schema, a file of docs/schemas.",
            format!("urn:linkledger:schema:{event_type}:v{version}"),
        ),
        "ce_id": text("Id of the event.", EventId::PATTERN),
        "ce_source": text(
            "Shard of the log; its number equals the partition.",
            "^/linkledger/shards/([0-9]|1[0-5])$",
        ),
        "ce_subject": text("Link or account whose stream has the event.", subject),
        "ce_partitionkey": text("Account that the event concerns; equal to the record's key.", AccountId::PATTERN),
        "ce_time": text(
            "Time of the decision: RFC 3339, UTC, milliseconds.",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
        ),
        "ce_sequence": text(
            "Position of the event in its shard, from 1, without gaps; 20 digits.",
            "^[0-9]{20}$",
        ),
        "ce_logepoch": text("Epoch of the log; sequences of different epochs cannot be compared.", number),
        "ce_streamversion": text("Version of the event in its subject's stream, from 1.", number),
        "ce_mac": text(
            "Code by which the projector tells records of the relay from those of anybody else; consumers ignore it.",
            "^[0-9a-f]{32}$",
        ),
        "ce_traceparent": text(
            "W3C trace context of the request that caused the event, if there was one.",
            "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
        ),
    });
    if has_state(&event) {
        headers["ce_linkstate"] = json!({
            "type": "string",
            "description": "State of the link after the event, as JSON: docs/schemas/LinkState.v1.json.",
            "contentMediaType": "application/json",
        });
    }
    let names = headers.as_object().expect("it is one").keys();
    let required: Vec<_> = names.filter(|name| *name != "ce_traceparent").collect();
    json!({ "type": "object", "required": required, "properties": headers })
}

/// Returns true for the events that keep the state of a link: all of a link but its creation.
fn has_state(event: &Event) -> bool {
    matches!(event, Event::Link(event) if !matches!(event, LinkEvent::Created(_)))
}

/// Returns the headers of the record of an event with this payload.
fn headers(event_type: &str, version: i16, example: &Value) -> Map<String, Value> {
    let headers = published(event_type, version, example)
        .headers()
        .into_iter();
    headers
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}

/// Returns the state of the link of the examples after this event.
pub(super) fn state_after(event: &LinkEvent) -> ExistingLink {
    let golden = include_str!("../../../tests/events/LinkCreated.v1.json");
    let created = Event::from_stored("LinkCreated", 1, golden).expect("an event");
    let Event::Link(LinkEvent::Created(created)) = created else {
        panic!("the golden file is of another event");
    };
    ExistingLink::new(&created, datetime!(2026-11-20 09:51:00.123 UTC)).apply(event)
}

/// Returns an event with this payload, as published.
fn published(event_type: &str, schema_version: i16, example: &Value) -> PublishedEvent {
    let payload = example.to_string();
    let event = Event::from_stored(event_type, schema_version, &payload).expect("an event");
    let account_id: AccountId =
        serde_json::from_value(example["account_id"].clone()).expect("an id");
    let link = match &event {
        Event::Link(LinkEvent::Created(_))
        | Event::Account(_)
        | Event::ApiKey(_)
        | Event::Webhook(_)
        | Event::Observation(_)
        | Event::Credits(_) => None,
        Event::Link(event) => Some(state_after(event)),
    };
    PublishedEvent::new(
        RecordedEvent {
            shard: Shard::of(account_id),
            position: 42,
            stream_id: event.subject().stream_id(),
            version: link.as_ref().map_or(1, |link| link.version),
            account_id,
            event_id: EventId::from_uuid(Uuid::from_u128(
                0x0193_4973_5e3b_7000_8000_0000_0000_0001,
            )),
            event_type: event_type.to_owned(),
            schema_version,
            payload,
            metadata: Metadata {
                traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
                link: link.map(|link| link.state.into()),
                ..Metadata::default()
            },
            recorded_at: datetime!(2026-11-20 09:51:00.123 UTC),
        },
        1,
    )
    .signed(&RecordKey::new(b"key of the examples"))
}

/// Returns the names of the headers of all records, sorted.
pub(super) fn header_names() -> Vec<String> {
    let names = all_schemas()
        .into_iter()
        .flat_map(|(event_type, version, schema)| {
            headers(event_type, version, &schema["examples"][0])
        });
    let names: BTreeSet<String> = names.map(|(name, _)| name).collect();
    names.into_iter().collect()
}

#[test]
fn asyncapi_document_is_up_to_date() {
    assert_committed("docs/asyncapi.json", &document());
}

#[test]
fn asyncapi_describes_exactly_the_headers() {
    let document = document();
    for message in document["components"]["messages"]
        .as_object()
        .unwrap()
        .values()
    {
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let described = names(&message["headers"]["properties"]);
        for example in message["examples"].as_array().unwrap() {
            assert_eq!(described, names(&example["headers"]));
        }
    }
}
