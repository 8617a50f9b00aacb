//! Throughput of Postgres alone with the same rows.

pub mod creates;
