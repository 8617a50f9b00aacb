//! command-api against a real Postgres and a real broker; tests of the relay are in `command-api/tests/relay`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod accounts;
mod admin;
mod admin_routes;
mod append_only;
mod change_link;
mod cli;
mod concurrency;
mod create_link;
mod create_links;
mod delete_link;
mod details;
mod disabled;
mod faults;
mod idempotency;
#[cfg(not(feature = "tls"))]
mod kafka_without_tls;
mod later_release;
mod link_price;
mod log_copy;
mod log_epoch;
mod log_export;
mod log_verify;
mod observer;
mod operator;
mod order_of_checks;
mod plans;
mod pool_transaction;
mod positions;
mod proxy;
mod raw_http;
#[expect(dead_code, reason = "the tests of the relay use the rest")]
#[path = "../relay/fixture.rs"]
mod relay_fixture;
#[expect(dead_code, reason = "the tests of the relay use the rest")]
#[path = "../relay/process.rs"]
mod relay_process;
mod restarted_server;
mod rights;
mod sealing;
mod support;
mod topic;
mod two_tenants;
mod webhooks;
