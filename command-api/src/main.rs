//! The program `command-api`: its command line is in the library.

use std::process::ExitCode;

/// Allocates with jemalloc, which reuses memory that other threads have freed (ADR 11).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    linkledger_command_api::command_line::main()
}
