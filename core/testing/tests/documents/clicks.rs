//! Generates the schema of a click, `docs/schemas/LinkClicked.v1.json`, and its part of `docs/asyncapi.json`;
//! checks the examples of `docs/clicks.md`.

use std::{collections::BTreeSet, fs};

use linkledger_clicks::{
    CLICK_PARTITIONS, CLICKS_TOPIC, Click, ClickDetails, RecordPlace, RecorderId,
};
use linkledger_core::{cloud_event::RecordKey, id::LinkId};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{assert_committed, asyncapi::BINDING_VERSION, events_page::blocks, file};

/// Name of the schema, of its file, and of the message.
pub(super) const NAME: &str = "LinkClicked.v1";
const CHANNEL: &str = include_str!("asyncapi/clicks.md");
/// Files of a click with all details, and of a record with a count.
const GOLDEN: [&str; 2] = ["LinkClicked.v1.json", "LinkClicked.v1.merged.json"];

fn golden() -> [Value; 2] {
    GOLDEN.map(|name| {
        let path = file("core/clicks/tests/records").join(name);
        let text = fs::read_to_string(path)
            .unwrap_or_else(|e| panic!("core/clicks/tests/records/{name}: {e}"));
        serde_json::from_str(&text).expect("JSON")
    })
}

fn click(value: &Value) -> Click {
    Click::from_value(value.to_string().as_bytes()).expect("a click")
}

/// Returns the schema of a record's value, with examples.
pub(super) fn schema() -> Value {
    let mut schema = Click::value_schema().to_value();
    schema["$id"] = "urn:linkledger:schema:LinkClicked:v1".into();
    // Members may be added: readers ignore unknown members.
    schema["additionalProperties"] = true.into();
    schema["examples"] = json!(golden());
    schema
}

pub(super) fn channel() -> Value {
    json!({
        "address": CLICKS_TOPIC,
        "title": "Clicks of all links",
        "description": CHANNEL,
        "messages": { NAME: { "$ref": format!("#/components/messages/{NAME}") } },
        "bindings": { "kafka": {
            "topic": CLICKS_TOPIC,
            "partitions": CLICK_PARTITIONS,
            "topicConfiguration": { "cleanup.policy": ["delete"] },
            "bindingVersion": BINDING_VERSION,
        } },
    })
}

pub(super) fn operation() -> Value {
    json!({
        "action": "send",
        "channel": { "$ref": "#/channels/clicks" },
        "summary": "linkledger publishes each click after the visitor is redirected.",
        "messages": [{ "$ref": format!("#/channels/clicks/messages/{NAME}") }],
    })
}

pub(super) fn message() -> Value {
    let schema = schema();
    let description = schema["description"].as_str().expect("a description");
    let (summary, _) = description.split_once("\n\n").unwrap_or((description, ""));
    let recorder_id = RecorderId(Uuid::from_u128(0x0193_4973_5e3b_7000_8000_0000_0000_0001));
    let examples = (1..).zip(golden()).map(|(sequence, value)| {
        let place = RecordPlace {
            recorder_id,
            partition: 5,
            sequence,
        };
        let bytes = click(&value).to_value();
        let headers: Map<String, Value> = place
            .headers(&bytes, &RecordKey::new(b"key"))
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        json!({ "headers": headers, "payload": value })
    });
    json!({
        "name": format!("linkledger.{NAME}"),
        "title": "LinkClicked",
        "summary": summary,
        "description": description,
        "contentType": "application/json",
        "headers": header_schema(),
        "payload": { "$ref": format!("#/components/schemas/{NAME}") },
        "bindings": { "kafka": {
            "key": {
                "type": "string",
                "description": "Link that was clicked.",
                "pattern": LinkId::PATTERN,
            },
            "bindingVersion": BINDING_VERSION,
        } },
        "examples": examples.collect::<Vec<_>>(),
    })
}

fn header_schema() -> Value {
    let text = |description: &str, pattern: &str| json!({ "type": "string", "description": description, "pattern": pattern });
    let fixed = |description: &str, value: &str| json!({ "type": "string", "description": description, "const": value });
    let uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}";
    let headers = json!({
        "content-type": fixed("Media type of the value.", "application/json"),
        "ce_specversion": fixed("Version of CloudEvents.", "1.0"),
        "ce_type": fixed("Type of the record, and the version of the payload's schema.", "linkledger.LinkClicked.v1"),
        "ce_id": text(
            "Id of the record: recorder, partition and sequence.",
            &format!("^{uuid}-([0-9]|1[0-5])-[1-9][0-9]*$"),
        ),
        "ce_source": text(
            "Recorder of the click: one start of query-api.",
            &format!("^/linkledger/recorders/{uuid}$"),
        ),
        "ce_sequence": text(
            "Number of the record among its recorder's records in the partition, from 1, without gaps.",
            "^[1-9][0-9]*$",
        ),
        "ce_mac": text(
            "Code by which projector knows the record; consumers ignore it.",
            "^[0-9a-f]{32}$",
        ),
    });
    let names: Vec<_> = headers.as_object().expect("an object").keys().collect();
    json!({ "type": "object", "required": names, "properties": headers })
}

fn names(members: &Value) -> BTreeSet<String> {
    members
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect()
}

fn written(click: &Click) -> Value {
    serde_json::from_slice(&click.to_value()).expect("JSON")
}

#[test]
fn click_schema_is_up_to_date() {
    assert_committed(&format!("docs/schemas/{NAME}.json"), &schema());
}

#[test]
fn golden_clicks_are_read_and_written_unchanged() {
    for value in golden() {
        assert_eq!(written(&click(&value)), value);
    }
}

#[test]
fn click_schema_has_exactly_the_members_of_clicks() {
    let [full, merged] = golden();
    let mut full = click(&full);
    full.count = 2;
    assert_eq!(names(&schema()["properties"]), names(&written(&full)));
    let mut bare = click(&merged);
    bare.count = 1;
    bare.details = ClickDetails::default();
    let required: BTreeSet<String> = serde_json::from_value(schema()["required"].clone()).unwrap();
    assert_eq!(required, names(&written(&bare)));
}

fn page() -> String {
    fs::read_to_string(file("docs/clicks.md")).expect("the page")
}

#[test]
fn clicks_page_has_the_golden_example() {
    let page = page();
    let [example] = blocks(&page, "json")["A record"][..] else {
        panic!("docs/clicks.md has not one example of a record");
    };
    let example: Value = serde_json::from_str(example).unwrap();
    assert_eq!(example, golden()[0]);
}

#[test]
fn clicks_page_lists_all_headers_and_members() {
    let page = page();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let listed: BTreeSet<String> = cells
        .flat_map(|cell| cell.split("`, `"))
        .map(|name| name.trim_matches('`').to_owned())
        .collect();
    let mut expected = names(&header_schema()["properties"]);
    expected.extend(names(&schema()["properties"]));
    assert_eq!(listed, expected);
}

#[test]
fn clicks_page_rule_equals_example() {
    let page = page();
    let code = fs::read_to_string(file("docs/examples/click_stream.py")).unwrap();
    let [snippet] = blocks(&page, "python")["Order, duplicates, gaps"][..] else {
        panic!("docs/clicks.md has not one rule");
    };
    assert!(code.contains(snippet), "not in click_stream.py:\n{snippet}");
}
