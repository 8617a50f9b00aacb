//! Tests of the aggregation of clicks with a real Postgres and librdkafka's broker: statistics equal a naive count,
//! whatever the topic delivers. They take a minute by themselves, so `.ci/run` runs them, and `cargo test` does not:
//! `cargo test -p linkledger-projector --test clicks`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod click_events;
mod click_fixture;
mod completeness;
mod exactness;
mod faults;
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../api/fixture.rs"]
mod fixture;
mod housekeeping;
mod operation;
mod other_topic;
mod plans;
mod recount;
mod statistics;
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../api/tables.rs"]
mod tables;

use linkledger_testing::events;
