//! Surfaces for operators: the command line, the console, and the progress of a command.

pub mod cli;
pub mod console;
pub mod progress_report;
