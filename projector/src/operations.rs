//! Operations of an operator: each is a function that the command line and the console call.

pub mod audit;
pub(crate) mod figures;
pub mod parked;
pub mod pause;
pub mod rebuild;
pub mod recount;
pub mod status;
pub mod verify;
