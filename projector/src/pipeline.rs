//! What runs all day: events come in, become rows, and checkpoints move on.

pub mod apply;
pub mod checkpoint;
pub mod consumer;
pub mod decode;
pub mod engine;
pub mod heartbeat;
pub mod parking;
pub(crate) mod periodic;
pub mod poison;
pub mod progress;
pub mod redirect_changes;
pub mod retry;
pub mod run;
