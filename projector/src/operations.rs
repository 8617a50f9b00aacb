//! Operations of an operator: each is a function that the command line or the admin API calls.

pub mod audit;
pub mod parked;
pub mod pause;
pub mod rebuild;
pub mod recount;
pub mod status;
pub mod verify;

pub(crate) use linkledger_service::number_format;
