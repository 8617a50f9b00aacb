//! `projector parked` as a process.

use std::process::Output;

use linkledger_core::{id::AccountId, projection::Projection};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::{
    fixture::Fixture,
    poisoned::{paint, restore},
    process::{self, stdout},
    tables::Tables,
};

async fn run(fixture: &Fixture, arguments: &[&str]) -> Output {
    process::run(&fixture.database, &[&["parked"][..], arguments].concat()).await
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn parked_account(fixture: &Fixture) -> AccountId {
    let account_id = fixture.account_with_links("parked", 2).await;
    let log = fixture.log().await;
    paint(fixture.database.pool(), &log[1]).await;
    fixture.apply_log().await;
    restore(fixture.database.pool(), &log[1]).await;
    account_id
}

#[tokio::test]
async fn list_says_that_no_account_is_parked() {
    let fixture = Fixture::new().await;
    let listed = run(&fixture, &["list"]).await;
    assert_eq!(stdout(&listed), "No account is parked.\n");
    let listed = run(&fixture, &["list", "--json"]).await;
    assert_eq!(json_of(&listed), json!({ "parked": [] }));
    let retried = run(&fixture, &["retry", "--all"]).await;
    assert!(retried.status.success());
    assert_eq!(stdout(&retried), "Nothing is parked.\n");
}

#[tokio::test]
async fn parked_account_is_listed_and_released_by_retry() {
    let fixture = Fixture::new().await;
    let account_id = parked_account(&fixture).await;
    let listed = run(&fixture, &["list", "--json"]).await;
    let parked = &json_of(&listed)["parked"];
    assert_eq!(parked.as_array().unwrap().len(), Projection::ALL.len());
    let first = &parked[0];
    assert_eq!(first["account_id"], account_id.to_string());
    assert_eq!(first["projection"], Projection::ALL[0].name());
    assert_eq!(first["position"], 2);
    assert_eq!(first["event_type"], "LinkPainted");
    assert_eq!(first["reason"], "unknown_event");
    assert_eq!(first["waiting"], 4);
    let text = stdout(&run(&fixture, &["list"]).await);
    assert_eq!(text.lines().count(), 1 + Projection::ALL.len(), "{text}");
    assert!(
        text.contains("LinkPainted: unknown event `LinkPainted` version 1"),
        "{text}"
    );

    let retried = run(&fixture, &["retry", &account_id.to_string(), "--json"]).await;
    assert!(retried.status.success());
    let outcome = |projection: Projection| {
        json!({ "account_id": account_id, "projection": projection.name(), "released": true,
                "applied": 4 })
    };
    let expected = Projection::ALL.map(outcome);
    assert_eq!(json_of(&retried), json!({ "retried": expected }));
    let tables = Tables::read(fixture.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&fixture.log().await));
    assert_eq!(recorded(fixture.database.pool()).await, ["parked retry"]);
}

#[tokio::test]
async fn fruitless_retry_fails_with_the_reason() {
    let fixture = Fixture::new().await;
    let account_id = parked_account(&fixture).await;
    let log = fixture.log().await;
    paint(fixture.database.pool(), &log[1]).await;
    let retried = run(&fixture, &["retry", "--all"]).await;
    assert!(!retried.status.success());
    let text = stdout(&retried);
    let line: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    let expected = format!(
        "{account_id} {} 0 applied, still parked: unknown event `LinkPainted` version 1",
        Projection::ALL[0]
    );
    assert_eq!(line.join(" "), expected, "{text}");
    let error = String::from_utf8(retried.stderr).unwrap();
    assert!(
        error.starts_with("error: not every account could be released"),
        "{error}"
    );
    let outcome: String = sqlx::query_scalar("SELECT outcome FROM read_model.operations")
        .fetch_one(fixture.database.pool())
        .await
        .unwrap();
    assert_eq!(outcome, "failed");
}

#[tokio::test]
async fn retry_without_an_account_is_refused() {
    let fixture = Fixture::new().await;
    for arguments in [
        &["retry"][..],
        &["retry", "acc_x"],
        &["retry", "--all", "acc_x"],
    ] {
        let retried = run(&fixture, arguments).await;
        assert_eq!(retried.status.code(), Some(2), "{arguments:?}");
    }
}

#[tokio::test]
async fn waiting_events_are_shown_and_skipped_with_reason() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = parked_account(&fixture).await;
    let account = account_id.to_string();
    let log = fixture.log().await;
    paint(pool, &log[1]).await;

    let shown = json_of(&run(&fixture, &["show", &account, "--json"]).await);
    let waiting = shown["waiting"].as_array().unwrap();
    let positions = waiting.iter().map(|it| it["position"].as_i64().unwrap());
    assert_eq!(positions.collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(shown["waiting_total"], 4 * Projection::ALL.len());
    let text = stdout(&run(&fixture, &["show", &account]).await);
    assert!(text.contains("; waiting: 4 events\n"), "{text}");
    let text = stdout(&run(&fixture, &["show", &account, "--limit", "1"]).await);
    assert!(text.contains("; waiting: 1 event, and more\n"), "{text}");
    assert_eq!(waiting[0]["event_type"], "LinkPainted");
    assert_eq!(waiting[0]["why"], "unknown event `LinkPainted` version 1");
    assert_eq!(waiting[1]["event_type"], "CreditsCharged");
    assert!(waiting[1]["why"].is_null());
    let text = stdout(&run(&fixture, &["show", &account, "--limit", "2"]).await);
    assert_eq!(text.lines().count(), 1 + 1 + 2, "{text}");

    let unreasoned = run(&fixture, &["skip", &account]).await;
    assert_eq!(unreasoned.status.code(), Some(2));
    for arguments in [
        &["skip", &account, "--reason", "ticket 7", "--dry-run"][..],
        &["retry", &account, "--dry-run"],
    ] {
        let dry = run(&fixture, arguments).await;
        assert!(
            dry.status.success() && stdout(&dry).contains("would"),
            "{dry:?}"
        );
    }
    assert!(recorded(pool).await.is_empty());

    let skip = ["skip", &account, "--reason", "ticket 7", "--json"];
    let skipped = json_of(&run(&fixture, &skip).await);
    assert_eq!(skipped["skipped"]["position"], 2);
    assert_eq!(skipped["retried"][0]["applied"], 3);
    let retried = run(&fixture, &["retry", &account]).await;
    assert_eq!(stdout(&retried), "Nothing is parked.\n");
    assert_eq!(recorded(pool).await, ["parked skip"; Projection::ALL.len()]);

    let shown = stdout(&run(&fixture, &["show", &account]).await);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("{account} is not parked."));
    assert_eq!(lines[1], "Left out for good:");
    assert!(lines[3].contains("ticket 7"), "{shown}");
    let again = run(&fixture, &skip).await;
    let error = String::from_utf8(again.stderr).unwrap();
    let expected = format!(
        "error: `{account}` is not parked; `projector parked list` shows the parked accounts\n"
    );
    assert_eq!(error, expected);
}

/// Returns the recorded commands, oldest first.
async fn recorded(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar("SELECT command FROM read_model.operations ORDER BY operation_id")
        .fetch_all(pool)
        .await
        .unwrap()
}
