//! Tests of the stack and of processes of the services that take longest: kills, restarts, faults of the server, rebuilds
//! under load, exports into another stack. They take most of a minute by themselves, so `.ci/run` runs them, and `cargo
//! test` does not: `cargo test -p linkledger --test slow`.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod batches_with_kills;
mod demo;
mod expiry_in_two_processes;
mod export;
#[expect(dead_code, reason = "the tests of e2e use the rest")]
#[path = "../e2e/http.rs"]
mod http;
#[expect(dead_code, reason = "the tests of e2e use the rest")]
#[path = "../e2e/process.rs"]
mod process;
mod read_only_server;
mod rebuild_under_load;
mod restart;
#[expect(dead_code, reason = "the tests of e2e use the rest")]
#[path = "../e2e/scrape.rs"]
mod scrape;
mod separate_processes;
#[path = "../e2e/services.rs"]
mod services;
mod settings;
