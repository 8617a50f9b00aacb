//! linkledger on one machine: the whole stack in one process, and a command-line client of the API.

pub mod command_line;

mod clicks;
mod client;
mod completions;
mod credits;
mod data_folder;
mod demo;
mod demo_account;
mod environment;
mod events;
mod exit_code;
mod export;
mod import;
mod ingress;
mod links;
mod options;
mod output;
mod output_file;
mod paging;
mod problem;
mod stack;
mod table;
mod webhooks;
