//! Tests of the dispatcher of webhooks with a real Postgres and real receivers: whatever a receiver answers, and
//! whenever a dispatcher dies, every wanted message arrives. They take a minute by themselves, so `.ci/run` runs them,
//! and `cargo test` does not: `cargo test -p linkledger-projector --test webhooks`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod addresses;
mod arrival;
mod changes;
mod crashes;
mod dispatch_fixture;
mod illness;
mod isolation;
mod lease;
mod notices;
mod ordered;
mod outages;
mod process;
mod proxy;
mod receiver;
mod schedules;
mod signatures;
