//! linkledger on one machine: the stack in one process, and the client.

pub mod import;
pub mod options;
pub mod stack;

mod data_folder;
mod demo;
mod environment;
mod ingress;
mod kafka;
