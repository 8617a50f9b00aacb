//! The tests of the stack, run as users run it: real processes, real sockets. The slow ones are in
//! `deploy/local/tests/slow`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod apache_kafka;
mod certificates;
mod client;
mod client_clicks;
mod client_errors;
mod client_events;
mod client_lists;
mod client_qr_codes;
mod client_walkthrough;
mod client_webhooks;
mod client_writes;
mod command_line;
mod committed;
mod complaints;
mod configuration;
mod doctor;
mod export;
#[expect(dead_code, reason = "the slow tests use the rest")]
mod http;
mod import;
mod import_formats;
mod import_outcomes;
mod ingress;
#[cfg(feature = "tls")]
mod kafka_security;
mod life_of_a_link;
mod metrics;
mod openapi;
mod postgres_tls;
mod process;
mod scrape;
mod scripted_server;
mod services;
mod stack_settings;
mod walkthrough;
mod webhooks;
