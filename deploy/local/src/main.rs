//! The binary `linkledger`; what it does is in the library of the same name.

use std::process::ExitCode;

use linkledger::command_line::{self, CommandLine};

/// Gives memory back that many threads have held (ADR 11).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// More threads than cores: the services of one process must not wait for each other's work.
#[tokio::main(worker_threads = 8)]
async fn main() -> ExitCode {
    command_line::run(CommandLine::of_process()).await
}
