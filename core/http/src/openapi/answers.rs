//! Schemas of answers say types and formats only. A client that is generated from the document checks answers by it,
//! some of them after a link was charged, so a value that a later release or another setting allows must not fail there.

use std::collections::BTreeSet;

use serde_json::Value;
use utoipa::openapi::{
    OpenApi, RefOr, Schema,
    schema::{AdditionalProperties, ArrayItems},
};

const SCHEMAS: &str = "#/components/schemas/";

/// Removes the keywords that refuse values from every schema that no request uses.
pub(super) fn loosen(document: &mut OpenApi) {
    let sent = schemas_of_requests(document);
    let components = document.components.get_or_insert_default();
    for (name, schema) in &mut components.schemas {
        if !sent.contains(name) {
            remove_refusing(schema);
        }
    }
}

/// Returns the names of the schemas that the bodies of requests consist of.
fn schemas_of_requests(document: &mut OpenApi) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let items = document.paths.paths.values_mut();
    for operation in items.flat_map(super::operations) {
        let body = serde_json::to_value(&operation.request_body).expect("a body");
        add_references(&body, &mut names);
    }
    let components = document.components.get_or_insert_default();
    loop {
        let count = names.len();
        for name in names.clone() {
            if let Some(schema) = components.schemas.get(&name) {
                add_references(&value_of(schema), &mut names);
            }
        }
        // The set only grows, at most to all schemas.
        if names.len() == count {
            return names;
        }
    }
}

fn value_of(schema: &RefOr<Schema>) -> Value {
    serde_json::to_value(schema).expect("a schema")
}

fn add_references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            let reference = object.get("$ref").and_then(Value::as_str);
            let name = reference.and_then(|reference| reference.strip_prefix(SCHEMAS));
            names.extend(name.map(str::to_owned));
            object
                .values()
                .for_each(|value| add_references(value, names));
        }
        Value::Array(values) => values.iter().for_each(|value| add_references(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes the keywords that refuse values, or replace missing ones, from the schema and from those inside.
fn remove_refusing(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            object.pattern = None;
            object.min_length = None;
            object.max_length = None;
            object.maximum = None;
            object.enum_values = None;
            object.default = None;
            object.properties.values_mut().for_each(remove_refusing);
            if let Some(AdditionalProperties::RefOr(schema)) =
                object.additional_properties.as_deref_mut()
            {
                remove_refusing(schema);
            }
        }
        RefOr::T(Schema::Array(array)) => {
            array.min_items = None;
            array.max_items = None;
            array.unique_items = false;
            array.default = None;
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                remove_refusing(items);
            }
        }
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(remove_refusing),
        // The only alternatives are null and a reference; what a reference names is visited by itself.
        RefOr::Ref(_) | RefOr::T(_) => {}
    }
}
