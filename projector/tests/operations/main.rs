//! Tests of the operators' commands with a real Postgres: `rebuild`, `verify`, `pause`, `skip`, `retry`, `status`;
//! and that tables which a command has written equal those of a projector that nobody touched. They take a
//! minute by themselves, so `.ci/run` runs them, and `cargo test` does not:
//! `cargo test -p linkledger-projector --test operations`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../api/cache_changes.rs"]
mod cache_changes;
mod contested;
#[path = "../api/cycles.rs"]
mod cycles;
mod equivalence;
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../api/fixture.rs"]
mod fixture;
#[path = "../api/gate.rs"]
mod gate;
mod generations;
#[path = "../api/large_tables.rs"]
mod large_tables;
mod operation;
mod operator;
mod parked_command;
mod pause;
#[path = "../api/poisoned.rs"]
mod poisoned;
mod process;
mod rebuild;
mod rebuild_equivalence;
mod rebuild_frozen;
mod rebuild_killed;
mod rebuild_parked;
mod release;
mod restored;
mod shown_progress;
mod skip;
mod status;
mod status_command;
mod status_remedies;
#[path = "../api/tables.rs"]
mod tables;
mod two_servers;
#[path = "../api/verified.rs"]
mod verified;
mod verify;

use linkledger_testing::events;
