//! One command for each question of how fast linkledger is.
//!
//! Machines are noisy, so what counts is the ratio to a baseline that is measured in the same
//! [`rounds`], alternating. A question ([`questions`]) starts a [`server`] with `fsync` on and the
//! [`stack`] as it is shipped, puts [`load`] on it, and comes to an [`answer`], which [`report`]
//! prints and keeps as JSON and as a plot.

pub mod accounts;
pub mod answer;
pub mod bare_redirect;
pub mod baseline;
pub mod bench;
pub mod command_line;
pub mod data_set;
pub mod links;
pub mod load;
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
pub mod stack;
pub mod statement;
pub mod visits;
