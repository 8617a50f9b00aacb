//! x
pub mod api_key;
pub mod batch;
pub mod clock;
pub mod cloud_event;
pub mod config;
pub mod consistency;
pub mod credits;
pub mod envelope;
pub mod event;
pub mod field;
pub mod id;
pub mod json;
pub mod link;
pub mod problem;
pub mod shard;
pub mod timestamp;

#[cfg(feature = "postgres")]
pub mod event_store;
#[cfg(feature = "postgres")]
pub mod migrations;

#[cfg(feature = "http")]
pub mod http;

#[cfg(feature = "service")]
pub mod lifecycle;
#[cfg(feature = "service")]
pub mod telemetry;

#[cfg(feature = "postgres-server")]
pub mod postgres_server;
#[cfg(feature = "testing")]
pub mod testing;
