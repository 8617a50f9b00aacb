//! Tests of the projector with a real Postgres and librdkafka's broker: whatever the topic
//! delivers, the read tables become what the log demands; and its admin API. Tests of the operators' commands are in
//! `projector/tests/operations`, of the aggregation of clicks in `projector/tests/clicks`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin_routes;
mod cache_changes;
mod catch_up;
mod claims;
mod cycles;
mod delivery;
mod effects;
#[expect(dead_code, reason = "the tests of operations use the rest")]
mod fixture;
mod frozen;
mod gate;
mod grants;
mod interleavings;
mod large_tables;
mod later_release;
mod outage;
mod parking;
mod plans;
mod poisoned;
mod process;
mod pruning;
mod redirect_changes;
mod restart;
#[expect(dead_code, reason = "the tests of operations use the rest")]
mod tables;
mod two_projectors;
mod unreadable;
mod verified;

use linkledger_testing::events;
