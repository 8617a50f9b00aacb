//! The vocabulary of linkledger, its decisions, and (behind features) its event store.
//!
//! # Words
//! One meaning each, the same in code, SQL, logs, documents and metrics.
//!
//! - **command**: a request to change something; may be rejected, is never stored
//!   ([`batch::KeyedCreate`], [`credits::GrantCredits`]).
//! - **event**: a fact, past tense ([`event::Event`]); **envelope**: the event and its metadata
//!   ([`envelope::NewEvent`] before the append, [`envelope::RecordedEvent`] after it).
//! - **aggregate**: the boundary of consistency ([`link::Link`], [`credits::Credits`],
//!   [`account::AccountStatus`]); it
//!   *decides* (command to events) and *applies* (state from events).
//! - **stream**: all events of one aggregate; **version**: place of an event in its stream.
//! - **shard**: one of the logs that together are *the* log, and one partition of the topic
//!   ([`shard::Shard`]); **position**: place of an event in its shard, from 1, without gaps;
//!   **head**: the highest position of a shard; **epoch**: positions compare within one only.
//! - **segment**: some thousand events of a shard under one hash, chained to the one before
//!   ([`segment::Segment`]); *sealed* for ever.
//! - **relay**: publishes the log to Kafka; **projection**: keeps a **read model** up to date;
//!   **checkpoint**: the last position that a projection has applied; **lag**: head minus checkpoint.
//! - **generation**: one whole set of a projection's read tables; one is served. **rebuild**: makes
//!   another from the log; **swap**: one transaction after which that one is served.
//! - **parked**: of an account with a poison event: what follows waits, in order, for an operator.
//! - **operation**: a changing command of an operator: its audit row and its lease.
//!
//! # Layers
//! Without features this crate decides and never waits: no I/O, no runtime. `postgres` adds the
//! event store, `http` what both HTTP services share, `service` what every process shares,
//! `postgres-server` a Postgres of our own, `apache-kafka` an Apache Kafka, `testing` servers and shortcuts for tests.

#![warn(missing_docs)]

pub mod account;
pub mod api_key;
pub mod batch;
pub mod clock;
pub mod cloud_event;
pub mod config;
pub mod consistency;
pub mod credits;
pub mod cursor;
pub mod envelope;
pub mod event;
pub mod fail_point;
pub mod field;
pub mod id;
pub mod json;
pub mod link;
mod listed;
pub mod problem;
pub mod projection;
pub mod segment;
pub mod shard;
pub mod timestamp;

#[cfg(feature = "postgres")]
pub mod event_store;
#[cfg(feature = "postgres")]
pub mod migrations;

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod metrics;
#[cfg(feature = "http")]
pub mod openapi;
#[cfg(feature = "http")]
pub mod single_flight;

#[cfg(feature = "service")]
pub mod doctor;
#[cfg(feature = "service")]
pub mod failure;
#[cfg(feature = "service")]
pub mod kafka_config;
#[cfg(feature = "kafka")]
pub mod kafka_trouble;
#[cfg(feature = "service")]
pub mod lifecycle;
#[cfg(feature = "service")]
pub mod operator;
#[cfg(feature = "service")]
pub mod settings;
#[cfg(feature = "service")]
pub mod telemetry;

#[cfg(feature = "apache-kafka")]
pub mod apache_kafka;
#[cfg(any(feature = "apache-kafka", feature = "postgres-server"))]
mod local_server;
#[cfg(feature = "postgres-server")]
pub mod postgres_server;
#[cfg(feature = "testing")]
pub mod testing;
