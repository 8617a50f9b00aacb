//! Links that owners and operators take out of service.

use serde_json::{Value, json};

use crate::{
    cli::json as run_json,
    support::{Answer, TestApp, change, create, fresh_key, send},
};

/// Returns status, tag and the two members of a link.
fn service(answer: &Answer) -> (u16, &str, Value) {
    let link = answer.json();
    let members = json!([link["disabled"], link["disabled_by"]]);
    (answer.status.as_u16(), answer.header("etag"), members)
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_and_operator_disable_a_link_independently() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let url = app.database.url();
    let body = json!({ "destination_url": "https://example.com/", "slug": "spring" });
    let created = send(&app.router, create(&key, fresh_key(), &body)).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let patch = async |disabled: Value| {
        let body = json!({ "disabled": disabled });
        send(&app.router, change(&key, &id, &body)).await
    };
    let operator = |command| {
        let command = ["link", command, "--link", &id, "--reason", "test"];
        run_json(url, &command)["disabled_by"].clone()
    };

    let (by_owner, by_operator) = (json!([true, "owner"]), json!([true, "operator"]));
    let in_service = json!([null, null]);
    let unchanged = patch(json!(false)).await;
    assert_eq!(service(&unchanged), (200, "\"1\"", in_service.clone()));
    for _ in 0..2 {
        let disabled = patch(json!(true)).await;
        assert_eq!(service(&disabled), (200, "\"2\"", by_owner.clone()));
    }
    assert_eq!(operator("disable"), "operator");
    for enabled in [json!(false), json!(null)] {
        let refused = patch(enabled).await;
        assert_eq!(refused.status, 403);
        assert_eq!(refused.json()["code"], "link_disabled_by_operator");
    }
    let titled = send(&app.router, change(&key, &id, &json!({ "title": "A" }))).await;
    assert_eq!(service(&titled), (200, "\"4\"", by_operator));
    assert_eq!(operator("enable"), "owner");
    let enabled = patch(json!(null)).await;
    assert_eq!(service(&enabled), (200, "\"6\"", in_service));

    let events: Vec<(String, String)> = sqlx::query_as(
        "SELECT type, (payload::jsonb - '{link_id,account_id}'::text[])::text
         FROM event_store.events
         WHERE type IN ('LinkDisabled', 'LinkEnabled') ORDER BY version",
    )
    .fetch_all(app.database.pool())
    .await
    .unwrap();
    let events = events.into_iter().map(|(event_type, payload)| {
        let payload: Value = serde_json::from_str(&payload).unwrap();
        (event_type, payload)
    });
    let events: Vec<_> = events.collect();
    let expected = [
        (
            "LinkDisabled",
            json!({ "reason": "by the owner", "by": "owner", "disabled_by": "owner" }),
        ),
        (
            "LinkDisabled",
            json!({ "reason": "test", "by": "operator", "disabled_by": "operator" }),
        ),
        (
            "LinkEnabled",
            json!({ "reason": "test", "by": "operator", "disabled_by": "owner" }),
        ),
        (
            "LinkEnabled",
            json!({ "reason": "by the owner", "by": "owner" }),
        ),
    ];
    assert_eq!(
        events,
        expected.map(|(kind, payload)| (kind.to_owned(), payload))
    );
}

#[tokio::test]
async fn patch_of_all_members_appends_all_events() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let destination = json!({ "destination_url": "https://example.com/" });
    let created = send(&app.router, create(&key, fresh_key(), &destination)).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let patch = json!({
        "destination_url": "https://example.com/new", "title": "A", "disabled": true,
    });
    let changed = send(&app.router, change(&key, &id, &patch)).await;
    assert_eq!(service(&changed), (200, "\"4\"", json!([true, "owner"])));
    let events: Vec<(i64, String)> = sqlx::query_as(
        "SELECT version, type FROM event_store.events WHERE type LIKE 'Link%' ORDER BY version",
    )
    .fetch_all(app.database.pool())
    .await
    .unwrap();
    let expected = [
        (1, "LinkCreated"),
        (2, "LinkDestinationChanged"),
        (3, "LinkDetailsChanged"),
        (4, "LinkDisabled"),
    ];
    assert_eq!(
        events,
        expected.map(|(version, kind)| (version, kind.to_owned()))
    );
}

#[tokio::test]
async fn only_booleans_and_null_disable_a_link() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let destination = json!({ "destination_url": "https://example.com/" });
    let created = send(&app.router, create(&key, fresh_key(), &destination)).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    for (patch, code) in [
        (json!({ "disabled": "true" }), "wrong_type"),
        (json!({ "disabled": 1 }), "wrong_type"),
        (json!({ "disabled": [] }), "wrong_type"),
        (json!({ "disabled_by": "owner" }), "field_not_mutable"),
    ] {
        let refused = send(&app.router, change(&key, &id, &patch)).await;
        assert_eq!(refused.status, 422);
        assert_eq!(refused.json()["errors"][0]["code"], code, "{patch}");
    }
    let disabled = json!({ "destination_url": "https://example.com/", "disabled": true });
    let refused = send(&app.router, create(&key, fresh_key(), &disabled)).await;
    assert_eq!(refused.json()["errors"][0]["code"], "unknown_field");
}
