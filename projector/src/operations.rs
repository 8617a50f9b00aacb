//! What an operator does: each operation is a function that others can call.

pub mod audit;
pub(crate) mod figures;
pub mod parked;
pub mod pause;
pub mod progress;
pub mod rebuild;
pub mod status;
pub mod verify;
pub mod why;
