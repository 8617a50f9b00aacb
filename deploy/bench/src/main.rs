//! The program `linkledger-bench`: its command line is in the library.

use std::process::ExitCode;

use linkledger_bench::command_line;

// One thread: the load uses one core at most.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    command_line::run().await
}
