//! `docs/openapi.json`, and `docs/admin-openapi.json` of the admin API, equal the descriptions of the handlers, and
//! describe the behaviour of the routes.

use std::collections::BTreeSet;

use linkledger_core::{
    api_key::{AdminKey, AdminScope, Scope},
    clock::{Clock as _, SystemClock, new_uuid},
    id::AdminKeyId,
};
use linkledger_event_store::{
    SessionKind,
    admin_keys::{self, NewAdminKey},
};
use linkledger_http::route_table::{self, Route};
use linkledger_testing as testing;
use serde_json::Value;
use sqlx::PgPool;

use crate::{
    committed::assert_current,
    http::Http,
    process::{Stack, data_folder},
};

/// Document of an API.
struct Document {
    /// Committed file.
    file: &'static str,
    /// Text that the file must have.
    text: String,
    json: Value,
    /// Start of the paths that the document describes.
    paths: &'static str,
    /// Paths of the listener.
    routes: &'static [Route],
}

/// Returns the documents of the public API and of the admin API.
fn documents() -> [Document; 2] {
    use linkledger_query_api as query_api;
    use {linkledger_command_api as command_api, linkledger_projector as projector};
    let public = command_api::openapi().merge_from(query_api::openapi());
    let admin = command_api::admin_openapi()
        .merge_from(query_api::admin_openapi())
        .merge_from(projector::admin_routes::openapi());
    let document = |file, document: utoipa::openapi::OpenApi, paths, routes| Document {
        file,
        text: document.to_pretty_json().unwrap() + "\n",
        json: serde_json::to_value(&document).unwrap(),
        paths,
        routes,
    };
    [
        document("docs/openapi.json", public, "/v1/", route_table::TABLE),
        document(
            "docs/admin-openapi.json",
            admin,
            "/admin/v1/",
            route_table::ADMIN_TABLE,
        ),
    ]
}

/// Returns method, path and description of each operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
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
    for Document { file, text, .. } in documents() {
        assert_current(file, &text, "REWRITE_OPENAPI", "openapi");
    }
}

#[test]
fn openapi_documents_exactly_the_routes() {
    for document in documents() {
        let documented: BTreeSet<(String, String)> = operations(&document.json)
            .into_iter()
            .map(|(method, path, _)| (method, path))
            .collect();
        let mut routes = BTreeSet::new();
        for (path, methods) in document.routes {
            // HEAD is documented together with GET.
            for method in methods.iter().filter(|method| *method != "HEAD") {
                if path.starts_with(document.paths) {
                    routes.insert((method.to_string(), (*path).to_owned()));
                }
            }
        }
        assert_eq!(documented, routes, "{}", document.file);
    }
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
    for (_, _, operation) in operations(document) {
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
    for document in documents() {
        let sent = sent(&document.json);
        let named = match document.paths {
            "/v1/" => ["LinkCreate", "BatchItem"],
            _ => ["AccountCreate", "KeyPatch"],
        };
        assert!(named.iter().all(|name| sent.contains(*name)), "{sent:?}");
        answers_refuse_nothing(&document.json, &sent);
    }
}

fn answers_refuse_nothing(document: &Value, sent: &BTreeSet<String>) {
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
    let documents = documents();
    let schemas = documents
        .iter()
        .flat_map(|document| document.json["components"]["schemas"].as_object().unwrap());
    for (name, schema) in schemas {
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
    for document in documents() {
        schemas_below(&document.json, "", &mut |path, schema| {
            let pattern = schema.get("pattern").and_then(Value::as_str);
            for beyond in ["\\p", "(?", "\\u{"] {
                let is_common = pattern.is_none_or(|pattern| !pattern.contains(beyond));
                assert!(is_common, "{path}: Python, Go or JavaScript lacks {beyond}");
            }
        });
    }
}

#[test]
fn an_operation_has_one_type_of_answer() {
    let documents = documents();
    let operations = documents
        .iter()
        .flat_map(|document| operations(&document.json));
    for (_, _, operation) in operations {
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
    let [public, admin] = documents();

    for (method, path, operation) in operations(&public.json) {
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

    let mut environment = stack.environment();
    let mut take = |name| environment.remove(name).unwrap();
    let http = Http::new(take("ADMIN_URL"), take("ADMIN_KEY"));
    for (method, path, operation) in operations(&admin.json) {
        let name = operation["operationId"].as_str().unwrap();
        let named = operation["security"][0]["admin_key"][0].as_str().unwrap();
        let named = AdminScope::of_name(named).unwrap();
        let others = AdminScope::ALL.into_iter().filter(|scope| *scope != named);
        let key = admin_key(&pool, &others.collect::<Vec<_>>()).await;
        let refused = http.call(&method, &path, key.reveal()).await;
        assert_eq!(refused.status, 403, "{name}: {refused:?}");
        assert_eq!(refused.json()["required_scopes"][0], named.name());

        let key = admin_key(&pool, &[named]).await;
        let admitted = http.call(&method, &path, key.reveal()).await;
        assert!(
            ![401, 403].contains(&admitted.status.as_u16()),
            "{name}: {admitted:?}"
        );
    }
    pool.close().await;
    assert_eq!(stack.interrupt(), Some(0));
}

/// Issues an admin key.
async fn admin_key(pool: &PgPool, scopes: &[AdminScope]) -> AdminKey {
    let secret = AdminKey::generate();
    let now = SystemClock.now();
    let key = NewAdminKey {
        key_id: AdminKeyId::from_uuid(new_uuid(now)),
        secret: &secret,
        name: "test",
        scopes,
        created_at: now,
        created_by: "test",
        expires_at: None,
    };
    admin_keys::insert(pool, &key).await.unwrap();
    secret
}
