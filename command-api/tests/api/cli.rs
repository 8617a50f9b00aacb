//! Runs commands of operators as processes.

use std::process::{Command, Output};

use serde_json::Value;

/// Name of the operator who runs the commands.
pub(crate) const OPERATOR: &str = "kim@ops-1";

/// Runs a command on the database.
pub(crate) fn run(url: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_command-api"))
        .args(arguments)
        .env("DATABASE_URL", url)
        .env("LINKLEDGER_OPERATOR", OPERATOR)
        .output()
        .expect("the command runs")
}

/// Runs a command that succeeds, and returns its JSON.
pub(crate) fn json(url: &str, arguments: &[&str]) -> Value {
    let output = run(url, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

/// Runs a command that fails with the exit code, and returns its message.
pub(crate) fn error(url: &str, arguments: &[&str], exit_code: i32) -> String {
    let output = run(url, arguments);
    assert_eq!(output.status.code(), Some(exit_code), "{output:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// Runs a command with `--json` that fails with the exit code, and returns the problem on its standard error.
pub(crate) fn problem(url: &str, arguments: &[&str], exit_code: i32) -> Value {
    let message = error(url, &[arguments, &["--json"]].concat(), exit_code);
    serde_json::from_str(&message).expect("one JSON value")
}

/// Runs a command of `topic`, with brokers in place of a database.
pub(crate) fn topic(brokers: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_command-api"))
        .arg("topic")
        .args(arguments)
        .env("KAFKA_BROKERS", brokers)
        .output()
        .expect("the command runs")
}
