//! `docs/openapi.json` equals the descriptions of the handlers, and describes the behaviour of the
//! routes.

use std::collections::BTreeSet;

use linkledger_core::{
    api_key::Scope,
    event_store::{self, SessionKind},
    http::route_table,
};
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

#[tokio::test]
async fn operations_demand_their_documented_scope() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let http = stack.http();
    let url = &stack.environment()["DATABASE_URL"];
    let pool = event_store::pool(url, SessionKind::Reader, 1).unwrap();
    let account_id = testing::account(&pool, 0).await;

    for (method, path, operation) in operations() {
        let name = operation["operationId"].as_str().unwrap();
        let named = operation["security"][0]["api_key"][0].as_str().unwrap();
        let named = Scope::parse(named).unwrap();
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|s| *s != named).collect();
        let key = testing::api_key(&pool, account_id, &others).await;
        let refused = http.call(&method, &path, key.reveal()).await;
        assert_eq!(refused.status, 403, "{name}: {refused:?}");
        assert_eq!(refused.json()["required_scopes"][0], named.as_str());

        let key = testing::api_key(&pool, account_id, &[named]).await;
        let admitted = http.call(&method, &path, key.reveal()).await;
        assert_ne!(admitted.status, 403, "{name}: {admitted:?}");
    }
    pool.close().await;
    assert_eq!(stack.interrupt(), Some(0));
}
