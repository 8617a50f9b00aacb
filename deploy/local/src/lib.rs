//! linkledger on one machine: the stack in one process, and the client.

pub mod command_line;

mod client;
mod completions;
mod credits;
mod data_folder;
mod demo;
mod environment;
mod import;
mod ingress;
mod links;
mod options;
mod output;
mod paging;
mod stack;
mod table;
