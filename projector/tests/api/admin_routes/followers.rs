//! Pauses of followers over HTTP.

use linkledger_projector::operations::pause::{FollowerName, paused};
use serde_json::{Value, json};
use sqlx::raw_sql;

use super::{AdminApi, Answer, path, post};

/// Changes every follower twice in both directions, and checks the answers and the record.
async fn change_all(api: &AdminApi) {
    for follower in FollowerName::ALL {
        for (operation, is_changed) in [
            ("pause", true),
            ("pause", false),
            ("resume", true),
            ("resume", false),
        ] {
            let answer = api.change(follower.name(), operation).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.header("cache-control"), "no-store");
            let state = answer.json();
            assert_eq!(state["follower"], follower.name(), "{operation}");
            assert_eq!(state["is_changed"], is_changed, "{operation} {follower}");
            assert_eq!(state["paused_at"].is_string(), operation == "pause");
            let stored = paused(api.pool(), &[follower]).await.unwrap();
            assert_eq!(stored[0].1.is_some(), operation == "pause");
        }
    }
    let operator = api.key_id.to_string();
    assert!(operator.starts_with("adm_"), "{operator}");
    let expected = FollowerName::ALL.into_iter().flat_map(|follower| {
        ["pause", "resume"]
            .map(|command| [command, follower.name(), &operator, "ticket 7"].map(str::to_owned))
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(api.recorded().await, expected);
}

#[tokio::test]
async fn changes_of_followers_are_on_record_with_the_key() {
    change_all(&AdminApi::start().await).await;
}

#[tokio::test]
async fn rights_of_the_projector_suffice_to_pause_and_resume() {
    change_all(&AdminApi::start_with_rights().await).await;
}

#[tokio::test]
async fn unknown_follower_is_404_with_the_names() {
    let api = AdminApi::start().await;
    for follower in ["all", "Links", "links%20", "relay", "read_model.links"] {
        for operation in ["pause", "resume"] {
            let answer = api.change(follower, operation).await;
            answer.assert_problem(404, "route_not_found");
            let detail = answer.json()["detail"].to_string();
            assert!(
                detail.contains("credits, links, redirects, clicks"),
                "{detail}"
            );
        }
    }
    assert_eq!(api.recorded().await.len(), 0);
}

/// Returns pointer and code of each error.
fn errors(answer: &Answer) -> Vec<String> {
    answer.assert_problem(422, "validation_failed");
    let problem = answer.json();
    let errors = problem["errors"].as_array().unwrap().iter();
    let text = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    errors
        .map(|error| format!("{} {}", text(error, "pointer"), text(error, "code")))
        .collect()
}

#[tokio::test]
async fn hostile_reason_is_refused() {
    let api = AdminApi::start().await;
    let path = path("links", "pause");
    for (body, expected) in [
        (json!({}), &["#/reason required"][..]),
        (json!({ "reason": null }), &["#/reason null_not_allowed"]),
        (json!({ "reason": ["x"] }), &["#/reason wrong_type"]),
        (json!({ "reason": "" }), &["#/reason text_invalid"]),
        (json!({ "reason": " x" }), &["#/reason text_invalid"]),
        (
            json!({ "reason": "all is well\n! paused" }),
            &["#/reason text_invalid"],
        ),
        (
            json!({ "reason": "\u{1b}[2Jx" }),
            &["#/reason text_invalid"],
        ),
        (json!({ "reason": "\u{202e}x" }), &["#/reason text_invalid"]),
        (
            json!({ "reason": "x".repeat(201) }),
            &["#/reason text_invalid"],
        ),
        (
            json!({ "reason": "x", "operator": "ada", "name": "clicks" }),
            &["#/name unknown_field", "#/operator unknown_field"],
        ),
    ] {
        let answer = api.send(post(&path, &api.key, body.to_string())).await;
        assert_eq!(errors(&answer), expected, "{body}");
    }
    for (body, code) in [
        ("", "malformed_json"),
        (r#"{"reason":"x","reason":"y"}"#, "malformed_json"),
        (r#"{"reason":"\ud800"}"#, "malformed_json"),
        (r#"["x"]"#, "body_not_object"),
        (r#""x""#, "body_not_object"),
    ] {
        let answer = api.send(post(&path, &api.key, body.to_owned())).await;
        answer.assert_problem(400, code);
    }
    assert_eq!(api.recorded().await.len(), 0);
}

#[tokio::test]
async fn change_that_cannot_be_recorded_is_none() {
    let api = AdminApi::start().await;
    raw_sql("ALTER TABLE read_model.operations RENAME TO operations_of_another_release")
        .execute(api.pool())
        .await
        .unwrap();
    for follower in FollowerName::ALL {
        let answer = api.change(follower.name(), "pause").await;
        answer.assert_problem(503, "storage_unavailable");
        assert!(!answer.body.contains("operations"), "{answer:?}");
    }
    let stored = paused(api.pool(), &FollowerName::ALL).await.unwrap();
    assert!(stored.iter().all(|(_, paused_at)| paused_at.is_none()));
}
