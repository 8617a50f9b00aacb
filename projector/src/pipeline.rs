//! The service that runs all day: receives events, writes their rows, and advances checkpoints.

pub mod apply;
pub mod checkpoint;
pub mod claims;
pub mod consumer;
pub mod decode;
pub mod followers;
pub mod parking;
pub(crate) mod periodic;
pub mod poison;
pub mod redirect_changes;
pub mod retry;
pub mod run;
