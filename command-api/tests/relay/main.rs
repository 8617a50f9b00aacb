//! Tests of the relay with a real Postgres and a real broker: every event of the log is published in order and without
//! a gap, whatever fails. They take minutes of the processors, so `.ci/run` runs them, and `cargo test` does not:
//! `cargo test -p linkledger-command-api --test relay`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod apache;
mod broker;
#[expect(dead_code, reason = "the tests of the API use the rest")]
#[path = "../api/cli.rs"]
mod cli;
mod fixture;
mod foreign;
mod kill;
mod leases;
mod load;
mod outage;
mod pause;
mod process;
mod producers;
mod publishing;
mod refused;
mod republish;
mod restored;
mod retries;
mod running;
#[expect(dead_code, reason = "the tests of the API use the rest")]
#[path = "../api/support.rs"]
mod support;
mod topic;
