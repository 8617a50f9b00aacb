//! The program `query-api`: its command line is in the library.

use std::process::ExitCode;

/// Returns memory of many threads to the system (ADR 11).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    linkledger_query_api::command_line::main()
}
