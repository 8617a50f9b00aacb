//! The projector against a real Postgres and librdkafka's broker: whatever is delivered, the read
//! tables say what the log says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod catch_up;
mod contested;
mod delivery;
mod effects;
mod equivalence;
mod events;
mod grants;
mod later_release;
mod outage;
mod parked_command;
mod parking;
mod plans;
mod poisoned;
mod pruning;
mod redirect_changes;
mod release;
mod restart;
mod restored;
mod stage;
mod tables;
mod two_projectors;
