//! Benchmarks of linkledger: one command for each question about its speed.
//!
//! Machines are noisy, so every figure is compared with a baseline that is measured in the same
//! [`rounds`], alternating. A question ([`questions`]) starts a [`server`] with `fsync` on and the
//! [`stack`] as it is shipped, puts [`load`] on the stack, and returns an [`answer`], which
//! [`report`] prints and writes as JSON and as a plot.

pub mod accounts;
pub mod answer;
pub mod bare_redirect;
pub mod baseline;
pub mod bench;
pub mod click_positions;
pub mod click_records;
pub mod command_api;
pub mod command_line;
pub mod data_set;
pub mod links;
pub mod load;
pub mod metrics;
pub mod pgbench;
pub mod processor_time;
pub mod programs;
pub mod projector;
pub mod questions;
pub mod read_tables;
pub mod report;
pub mod requests;
pub mod rounds;
pub mod running_stack;
pub mod server;
pub mod service_process;
pub mod stack;
pub mod statement;
pub mod visitors;
pub mod visits;
pub mod wal_use;
