//! The tests of the stack, run as users run it: real processes, real sockets.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod apache_kafka;
mod batches_with_kills;
mod certificates;
mod client;
mod client_clicks;
mod client_errors;
mod client_lists;
mod client_qr_codes;
mod client_walkthrough;
mod client_writes;
mod command_line;
mod committed;
mod complaints;
mod configuration;
mod demo;
mod doctor;
mod expiry_in_two_processes;
mod export;
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
mod read_only_server;
mod rebuild_under_load;
mod restart;
mod scripted_server;
mod separate_processes;
mod services;
mod stack_settings;
mod walkthrough;
