//! Surfaces for operators: the command line and the console.

pub mod cli;
pub mod console;
