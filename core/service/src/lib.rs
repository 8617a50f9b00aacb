//! Code of all processes that run for long: settings, telemetry, shutdown, `doctor`, clients of Kafka.

#![warn(missing_docs)]

pub mod databases;
pub mod doctor;
pub mod fail_point;
pub mod failure;
pub mod internal_listener;
pub mod kafka_close;
pub mod kafka_config;
pub mod kafka_errors;
mod kafka_headers;
pub mod kafka_leaders;
pub mod lifecycle;
pub mod log_activity;
pub mod log_identity;
pub mod metrics;
pub mod metrics_recorder;
pub mod number_format;
pub mod operator;
pub mod settings;
pub mod telemetry;
pub mod webhook_config;

pub use kafka_headers::kafka_headers;
