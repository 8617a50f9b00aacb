//! Operator and reason of a recorded command: text that the next operator reads.

use std::process::{Command, Output};

use linkledger_testing::TestDatabase;

async fn pause(database: &TestDatabase, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .args(["pause", "links"])
        .args(arguments)
        .env("DATABASE_URL", database.url())
        .env_remove("USER")
        .env_remove("LOGNAME")
        .env_remove("LINKLEDGER_OPERATOR")
        .envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

async fn recorded_operators(database: &TestDatabase) -> Vec<String> {
    sqlx::query_scalar("SELECT operator FROM read_model.operations ORDER BY operation_id")
        .fetch_all(database.pool())
        .await
        .unwrap()
}

#[tokio::test]
async fn name_or_reason_of_several_lines_is_refused() {
    let database = TestDatabase::create().await;
    for arguments in [
        ["--reason", "ticket 7\n! all is well"],
        ["--reason", "\u{1b}[2Jticket 7"],
        ["--reason", " "],
        ["--operator", "ada\neve"],
        ["--operator", ""],
    ] {
        let refused = pause(&database, &arguments, &[]).await;
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
    }
    let refused = pause(&database, &[], &[("LINKLEDGER_OPERATOR", "ada\u{7}eve")]).await;
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        error.contains("give 1 to 200 printable characters on one line"),
        "{error}"
    );
}

#[tokio::test]
async fn operator_without_name_is_recorded_as_process_user() {
    let database = TestDatabase::create().await;
    let paused = pause(&database, &[], &[]).await;
    assert!(paused.status.success());
    let user = Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    let recorded = recorded_operators(&database).await;
    let name = recorded[0].split('@').next().unwrap();
    assert_eq!(name, user.trim());
}
