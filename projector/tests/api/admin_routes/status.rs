//! The status over HTTP.

use linkledger_event_store::SessionKind;
use linkledger_projector::operations::status::collect;
use serde_json::Value;
use sqlx::raw_sql;

use super::{AdminApi, STATUS, get};

/// Removes the ages, and the snapshots that other tests hold on the same server.
fn without_ages(status: &mut Value) {
    match status {
        Value::Object(members) => {
            members.retain(|name, _| {
                let is_age = name.ends_with("seconds") || name.ends_with("seconds_ago");
                !is_age && !["at", "snapshots"].contains(&name.as_str())
            });
            members.values_mut().for_each(without_ages);
        }
        Value::Array(values) => {
            values.retain(|value| !value.as_str().is_some_and(|text| text.contains("snapshot")));
            values.iter_mut().for_each(without_ages);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn status_is_that_of_the_command_line() {
    let api = AdminApi::start().await;
    api.fixture.account_with_links("waiting", 1).await;
    assert_eq!(api.change("links", "pause").await.status, 200);
    let answer = api.status().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("content-type"), "application/json");
    let databases = api.fixture.databases(SessionKind::Reader, 1);
    let collected = collect(&databases).await.unwrap();
    let (mut shown, mut expected) = (answer.json(), serde_json::to_value(collected).unwrap());
    for member in ["at", "snapshots"] {
        assert!(shown.get(member).is_some(), "{member}");
    }
    for status in [&mut shown, &mut expected] {
        without_ages(status);
    }
    assert_eq!(shown, expected);
    let links = &shown["projections"][1];
    assert_eq!(links["projection"], "links");
    assert_eq!(links["paused_by"]["operator"], api.key_id.to_string());
    assert_eq!(links["paused_by"]["reason"], "ticket 7");
}

#[tokio::test]
async fn rights_of_the_projector_suffice_for_the_status() {
    let api = AdminApi::start_with_rights().await;
    let answer = api.status().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.json()["clicks"].is_null(), "{answer:?}");
}

#[tokio::test]
async fn unreadable_status_is_503_without_details() {
    let api = AdminApi::start().await;
    raw_sql("ALTER TABLE read_model.operations RENAME TO operations_of_another_release")
        .execute(api.pool())
        .await
        .unwrap();
    let answer = api.send(get(STATUS, &api.key)).await;
    answer.assert_problem(503, "storage_unavailable");
    assert!(!answer.body.contains("operations"), "{answer:?}");
}
