//! Runs commands of the projector, as an operator does.

use std::process::Output;

use linkledger_testing::TestDatabase;

/// Runs a command to its end.
pub(crate) async fn run(database: &TestDatabase, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_projector"));
    command.args(arguments).env("DATABASE_URL", database.url());
    command.output().await.unwrap()
}

/// Returns what a command printed on standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
