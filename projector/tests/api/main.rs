//! Tests of the projector with a real Postgres and librdkafka's broker: whatever the topic
//! delivers, the read tables become what the log demands.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod catch_up;
mod console;
mod contested;
mod delivery;
mod effects;
mod equivalence;
mod frozen;
mod gate;
mod generations;
mod grants;
mod heartbeat;
mod later_release;
mod operation;
mod operator;
mod outage;
mod parked_command;
mod parking;
mod pause;
mod plans;
mod poisoned;
mod process;
mod pruning;
mod rebuild;
mod rebuild_account;
mod rebuild_equivalence;
mod rebuild_frozen;
mod rebuild_killed;
mod rebuild_parked;
mod redirect_changes;
mod release;
mod restart;
mod restored;
mod shown_progress;
mod skip;
mod stage;
mod status;
mod status_command;
mod status_remedies;
mod tables;
mod two_projectors;
mod two_servers;
mod unreadable;
mod verify;
mod why;

use linkledger_testing::events;
