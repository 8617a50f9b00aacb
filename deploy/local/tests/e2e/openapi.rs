//! `docs/openapi.json` equals the descriptions of the handlers, and describes the behaviour of the
//! routes.

use std::collections::BTreeSet;

use linkledger_core::api_key::Scope;
use linkledger_event_store::SessionKind;
use linkledger_http::route_table;
use linkledger_testing as testing;
use serde_json::Value;
use utoipa::openapi::OpenApi;

use crate::{
    committed::assert_current,
    process::{Stack, data_folder},
};

fn document() -> OpenApi {
    linkledger_command_api::routes::openapi().merge_from(linkledger_query_api::routes::openapi())
}

/// Returns method, path and description of each operation.
fn operations() -> Vec<(String, String, Value)> {
    let document = serde_json::to_value(document()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    operations
}

#[test]
fn openapi_document_matches_the_handlers() {
    let generated = document().to_pretty_json().unwrap() + "\n";
    assert_current(
        "docs/openapi.json",
        &generated,
        "REWRITE_OPENAPI",
        "openapi",
    );
}

#[test]
fn openapi_documents_exactly_the_routes() {
    let documented: BTreeSet<(String, String)> = operations()
        .into_iter()
        .map(|(method, path, _)| (method, path))
        .collect();
    let mut routes = BTreeSet::new();
    for (path, methods) in route_table::TABLE {
        // HEAD is documented together with GET.
        for method in methods.iter().filter(|method| *method != "HEAD") {
            if path.starts_with("/v1/") {
                routes.insert((method.to_string(), (*path).to_owned()));
            }
        }
    }
    assert_eq!(documented, routes);
}

/// Calls `visit` with each schema below `value`, and the path to it. A map of members is no schema.
fn schemas_below(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(object) => {
            if !path.ends_with("/properties") {
                visit(path, value);
            }
            for (name, value) in object {
                schemas_below(value, &format!("{path}/{name}"), visit);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                schemas_below(value, &format!("{path}/{index}"), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the names of the schemas that bodies of requests consist of.
fn sent(document: &Value) -> BTreeSet<String> {
    let mut text = String::new();
    for (_, _, operation) in operations() {
        text += &operation["requestBody"].to_string();
    }
    let mut names = BTreeSet::new();
    loop {
        let parts = text.split("#/components/schemas/").skip(1);
        let found = parts.filter_map(|part| part.split('"').next());
        let new: Vec<String> = found
            .filter(|name| names.insert((*name).to_owned()))
            .map(str::to_owned)
            .collect();
        if new.is_empty() {
            return names;
        }
        for name in new {
            text += &document["components"]["schemas"][name].to_string();
        }
    }
}

#[test]
fn answers_refuse_no_value_of_a_later_release() {
    let document = serde_json::to_value(document()).unwrap();
    let sent = sent(&document);
    assert!(sent.contains("LinkCreate") && sent.contains("BatchItem"));
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if sent.contains(name) {
            continue;
        }
        schemas_below(schema, name, &mut |path, schema| {
            for keyword in [
                "pattern",
                "maxLength",
                "maxItems",
                "maximum",
                "enum",
                "default",
            ] {
                assert!(schema.get(keyword).is_none(), "{path}: {keyword}");
            }
            // Types of RFC 3986 refuse what the URL standard allows.
            let is_destination = path.contains("destination") || path.contains("expired_url");
            assert!(!is_destination || schema["format"] != "uri", "{path}");
        });
    }
}

#[test]
fn schemas_are_named_for_generators() {
    let document = serde_json::to_value(document()).unwrap();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(!name.starts_with("New"), "{name}: a constructor in Go");
        assert!(!name.contains('_'), "{name}: named by a macro");
        schemas_below(schema, name, &mut |path, schema| {
            // Parts of one schema are no schemas.
            let is_part = path == name || path.contains("/allOf/");
            let is_inline = !is_part && schema.get("properties").is_some();
            assert!(!is_inline, "{path}: generators make up its name");
            let has_pattern = schema["format"] == "date-time" && schema.get("pattern").is_some();
            assert!(!has_pattern, "{path}: a pattern is no check of a time");
        });
    }
}

#[test]
fn patterns_are_understood_by_every_generator() {
    let document = serde_json::to_value(document()).unwrap();
    schemas_below(&document, "", &mut |path, schema| {
        let pattern = schema.get("pattern").and_then(Value::as_str);
        for beyond in ["\\p", "(?", "\\u{"] {
            let is_common = pattern.is_none_or(|pattern| !pattern.contains(beyond));
            assert!(is_common, "{path}: Python, Go or JavaScript lacks {beyond}");
        }
    });
}

#[test]
fn an_operation_has_one_type_of_answer() {
    for (_, _, operation) in operations() {
        let name = operation["operationId"].as_str().unwrap();
        let mut types = BTreeSet::new();
        for (status, response) in operation["responses"].as_object().unwrap() {
            if let (true, Some(content)) =
                (status.starts_with('2'), response["content"].as_object())
            {
                types.extend(content.values().map(|body| body["schema"].to_string()));
            }
        }
        assert!(types.len() <= 1, "{name}: {types:?}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let is_uuid = parameter["schema"]["format"] == "uuid";
            let is_header = parameter["in"] == "header";
            assert!(!is_uuid || !is_header, "{name}: a UUID type is no header");
        }
    }
}

#[tokio::test]
async fn operations_demand_their_documented_scope() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let http = stack.http();
    let url = &stack.environment()["DATABASE_URL"];
    let pool = linkledger_event_store::pool(url, SessionKind::Reader, 1).unwrap();
    let account_id = testing::account(&pool, 0).await;

    for (method, path, operation) in operations() {
        let name = operation["operationId"].as_str().unwrap();
        let named = operation["security"][0]["api_key"][0].as_str().unwrap();
        let named = Scope::of_name(named).unwrap();
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|s| *s != named).collect();
        let key = testing::api_key(&pool, account_id, &others).await;
        let refused = http.call(&method, &path, key.reveal()).await;
        assert_eq!(refused.status, 403, "{name}: {refused:?}");
        assert_eq!(refused.json()["required_scopes"][0], named.name());

        let key = testing::api_key(&pool, account_id, &[named]).await;
        let admitted = http.call(&method, &path, key.reveal()).await;
        assert_ne!(admitted.status, 403, "{name}: {admitted:?}");
    }
    pool.close().await;
    assert_eq!(stack.interrupt(), Some(0));
}
