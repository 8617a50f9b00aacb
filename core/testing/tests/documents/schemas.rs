//! Generates `docs/schemas`: one JSON Schema for each version of each event, named like its golden
//! file, and that of the state of a link in the header `ce_linkstate`.

use std::{collections::BTreeSet, fs};

use linkledger_core::{
    event::{CATALOGUE, Event},
    link::{LinkEvent, LinkState},
};
use serde_json::{Value, json};

use super::{assert_committed, asyncapi::state_after, clicks, file};

/// Type, version and schema of each event in the log. Schemas of older versions are files that are
/// no longer generated.
pub(super) fn all_schemas() -> Vec<(&'static str, i16, Value)> {
    let older = |event_type: &'static str, newest: i16| {
        (1..newest).map(move |version| {
            let path = file(&format!("docs/schemas/{event_type}.v{version}.json"));
            let text = fs::read_to_string(path).expect("the schema stays");
            let schema = serde_json::from_str(&text).expect("JSON");
            (event_type, version, schema)
        })
    };
    let newest = newest_schemas().into_iter();
    newest
        .flat_map(|(event_type, version, schema)| {
            older(event_type, version).chain([(event_type, version, schema)])
        })
        .collect()
}

/// Type, version and schema of each event that this release writes.
fn newest_schemas() -> Vec<(&'static str, i16, Value)> {
    let schemas = CATALOGUE.iter().zip(Event::payload_schemas());
    schemas
        .map(|((event_type, version), schema)| {
            let name = format!("{event_type}.v{version}.json");
            let golden = fs::read_to_string(file("core/tests/events").join(&name));
            let golden = golden.unwrap_or_else(|e| panic!("core/tests/events/{name}: {e}"));
            let golden: Value = serde_json::from_str(&golden).expect("JSON");
            let mut schema = schema.to_value();
            schema["$id"] = format!("urn:linkledger:schema:{event_type}:v{version}").into();
            // Members may be added: readers ignore unknown members.
            schema["additionalProperties"] = true.into();
            schema["examples"] = json!([golden]);
            (*event_type, *version, schema)
        })
        .collect()
}

/// Name of the schema of a link's state.
const LINK_STATE: &str = "LinkState.v1";

/// Returns the schema of a link's state, with the state after the golden change of details.
fn state_schema() -> Value {
    let golden = include_str!("../../../tests/events/LinkDetailsChanged.v1.json");
    let changed = Event::from_stored("LinkDetailsChanged", 1, golden).expect("an event");
    let Event::Link(LinkEvent::DetailsChanged(changed)) = changed else {
        panic!("the golden file is of another event");
    };
    let state = state_after(&LinkEvent::DetailsChanged(changed)).state;
    let mut schema = schemars::schema_for!(LinkState).to_value();
    schema["$id"] = "urn:linkledger:schema:LinkState:v1".into();
    // Members may be added: readers ignore unknown members.
    schema["additionalProperties"] = true.into();
    schema["properties"]["details"]["additionalProperties"] = true.into();
    schema["examples"] = json!([state]);
    schema
}

#[test]
fn state_schema_is_up_to_date() {
    assert_committed(&format!("docs/schemas/{LINK_STATE}.json"), &state_schema());
}

#[test]
fn schemas_are_up_to_date() {
    for (event_type, version, schema) in newest_schemas() {
        assert_committed(
            &format!("docs/schemas/{event_type}.v{version}.json"),
            &schema,
        );
    }
    let names = |folder| -> BTreeSet<_> {
        let files = fs::read_dir(file(folder)).unwrap();
        files.map(|file| file.unwrap().file_name()).collect()
    };
    let mut expected = names("core/tests/events");
    expected.extend([clicks::NAME, LINK_STATE].map(|name| format!("{name}.json").into()));
    assert_eq!(names("docs/schemas"), expected);
}

#[test]
fn event_members_are_absent_never_null() {
    let schemas = newest_schemas().into_iter();
    let others = [
        ("LinkClicked", 1, clicks::schema()),
        ("LinkState", 1, state_schema()),
    ];
    for (event_type, version, schema) in schemas.chain(others) {
        for (name, member) in schema["properties"].as_object().unwrap() {
            assert!(
                !member.to_string().contains("\"null\""),
                "`{name}` of {event_type} {version}: `schemars(with = \"String\")` and \
                 `skip_serializing_if` make a member absent instead of null"
            );
        }
    }
}
