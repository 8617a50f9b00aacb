//! How an operator sees the projector: the command line, the console, the progress of a command.

pub mod cli;
pub mod console;
pub mod progress_report;
