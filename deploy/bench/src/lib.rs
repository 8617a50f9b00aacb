//! Benchmarks of linkledger.
//!
//! Machines are noisy, so every figure is compared with a baseline that is measured in the same
//! rounds, alternating. A benchmark ([`benchmarks`]) starts a [`server`] with `fsync` on and the
//! [`stack`] as it is shipped, puts [`load`] on the stack, and returns a [`report`], which is
//! printed and written as JSON and as a plot.

pub mod accounts;
pub mod bare_redirect;
pub mod bench;
pub mod benchmarks;
pub mod click_positions;
pub mod click_records;
pub mod command_line;
pub mod create_baseline;
pub mod data_set;
pub mod figures;
pub mod links;
pub mod load;
pub mod metrics;
pub mod pgbench;
pub mod process;
pub mod processor_time;
pub mod read_tables;
pub mod report;
pub mod requests;
pub mod running_stack;
pub mod server;
pub mod stack;
pub mod statement;
pub mod visitors;
pub mod visits;
