//! Servers that linkledger starts on this machine: a Postgres and an Apache Kafka, each a process with
//! a data folder. The local stack, the benchmarks and the tests use the servers; no service does.

#![warn(missing_docs)]

pub mod apache_kafka;
pub mod cargo;
mod local_server;
pub mod postgres_server;
#[cfg(test)]
mod test_programs;

pub use local_server::free_address;
