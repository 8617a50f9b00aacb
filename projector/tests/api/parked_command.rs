//! `projector parked`, as an operator runs it.

use std::process::{Command, Output};

use linkledger_core::id::AccountId;
use serde_json::{Value, json};

use crate::{
    poisoned::{paint, restore},
    stage::Stage,
    tables::Tables,
};

async fn run(stage: &Stage, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .arg("parked")
        .args(arguments)
        .env("DATABASE_URL", stage.database.url());
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn parked_account(stage: &Stage) -> AccountId {
    let account_id = stage.account_with_links("parked", 2).await;
    let log = stage.log().await;
    paint(stage.database.pool(), &log[1]).await;
    stage.engine().cycle(stage.log().await).await.unwrap();
    restore(stage.database.pool(), &log[1]).await;
    account_id
}

#[tokio::test]
async fn nothing_parked_is_said_so() {
    let stage = Stage::set().await;
    let listed = run(&stage, &["list"]).await;
    assert_eq!(stdout(&listed), "No account is parked.\n");
    let listed = run(&stage, &["list", "--json"]).await;
    assert_eq!(json_of(&listed), json!({ "parked": [] }));
    let retried = run(&stage, &["retry", "--all"]).await;
    assert!(retried.status.success());
    assert_eq!(stdout(&retried), "Nothing is parked.\n");
}

#[tokio::test]
async fn a_parked_account_is_listed_with_its_reason_and_released_by_a_retry() {
    let stage = Stage::set().await;
    let account_id = parked_account(&stage).await;
    let listed = run(&stage, &["list", "--json"]).await;
    let parked = &json_of(&listed)["parked"];
    assert_eq!(parked.as_array().unwrap().len(), 3);
    let first = &parked[0];
    assert_eq!(first["account_id"], account_id.to_string());
    assert_eq!(first["projection"], "credits");
    assert_eq!(first["position"], 2);
    assert_eq!(first["event_type"], "LinkPainted");
    assert_eq!(first["reason"], "unknown_event");
    assert_eq!(first["waiting"], 4);
    let text = stdout(&run(&stage, &["list"]).await);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        text.contains("LinkPainted: unknown event `LinkPainted` version 1"),
        "{text}"
    );

    let retried = run(&stage, &["retry", &account_id.to_string(), "--json"]).await;
    assert!(retried.status.success());
    let outcome = |projection| {
        json!({ "account_id": account_id, "projection": projection, "released": true,
                "applied": 4 })
    };
    let expected = ["credits", "links", "redirects"].map(outcome);
    assert_eq!(json_of(&retried), json!({ "retried": expected }));
    let tables = Tables::read(stage.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&stage.log().await));
}

#[tokio::test]
async fn a_retry_that_does_not_help_ends_with_failure_and_says_why() {
    let stage = Stage::set().await;
    let account_id = parked_account(&stage).await;
    let log = stage.log().await;
    paint(stage.database.pool(), &log[1]).await;
    let retried = run(&stage, &["retry", "--all"]).await;
    assert!(!retried.status.success());
    let text = stdout(&retried);
    let line = format!(
        "{account_id}  credits     0 applied, still parked: unknown event `LinkPainted` version 1"
    );
    assert_eq!(text.lines().next(), Some(line.as_str()), "{text}");
    let error = String::from_utf8(retried.stderr).unwrap();
    assert!(
        error.starts_with("error: not everything could be released"),
        "{error}"
    );
}

#[tokio::test]
async fn a_retry_of_nobody_in_particular_is_refused() {
    let stage = Stage::set().await;
    for arguments in [
        &["retry"][..],
        &["retry", "acc_x"],
        &["retry", "--all", "acc_x"],
    ] {
        let retried = run(&stage, arguments).await;
        assert_eq!(retried.status.code(), Some(2), "{arguments:?}");
    }
}
