//! The whole of linkledger as its users start it: real processes, real sockets.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod complaints;
mod http;
mod import;
mod openapi;
mod process;
mod restart;
mod separate_processes;
mod walkthrough;
