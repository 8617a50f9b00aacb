//! The domain of linkledger, the event store, and code shared by the services.
//!
//! linkledger keeps short links and credits of accounts. Every change of a link or of a balance is
//! an event in an append-only log in Postgres. The log is published to Kafka; read models are
//! derived from the log.
//!
//! # Glossary
//! Each word has one meaning in code, SQL, logs, documents and metrics.
//!
//! ## Domain
//! - **account**: a customer. An account owns links, credits and API keys ([`id::AccountId`]).
//! - **command**: a request to change something. A command may be rejected and is never stored
//!   ([`batch::LinkCommand`]).
//! - **event**: a fact in the past tense. Events are stored forever and never changed
//!   ([`event::Event`]).
//! - **aggregate**: the boundary of consistency. An aggregate *decides* (turns a command into
//!   events) and *applies* (derives its state from events). The aggregates are [`link::ExistingLink`],
//!   [`credits::Credits`] and [`account::AccountStatus`].
//! - **state of a link**: all that a link is after one of its events. A creation carries the state by
//!   its payload, every other event in its metadata ([`link::LinkState`]).
//! - **envelope**: an event with its metadata: [`envelope::NewEvent`] before the append,
//!   [`envelope::RecordedEvent`] after the append.
//! - **idempotency key**: chosen by the client. Requests with the same key have one effect
//!   ([`batch::IdempotencyKey`]).
//!
//! ## Log
//! - **log**: all events, in [`shard::SHARD_COUNT`] shards. Also called *event store*
//!   ([`event_store`]).
//! - **stream**: all events of one aggregate. The id of the link or of the account is the id of the
//!   stream.
//! - **version**: number of an event within its stream, from 1. Two writers cannot append the same
//!   version.
//! - **shard**: an independent part of the log, and one partition of the Kafka topic. All events of
//!   an account are in one shard ([`shard::Shard`]).
//! - **position**: number of an event within its shard, from 1, without gaps ([`shard::Position`]).
//! - **head**: the highest position of a shard. All events up to the head are visible to readers.
//! - **epoch**: number of a history of the log. An operator raises the epoch after restoring a
//!   backup that lost events. Positions of different epochs cannot be compared.
//! - **segment**: some thousand consecutive events of a shard under one hash. Each segment includes
//!   the hash of the segment before ([`segment::Segment`]). A *sealed* segment is never changed.
//!
//! ## Publishing and reading
//! - **relay**: publishes the log to Kafka, in order.
//! - **record key**: of a log; by it the projector tells records of the relay from those of anybody else, and by
//!   another one records of recorders ([`cloud_event::RecordKey`]).
//! - **offset**: number of a record within a Kafka partition. Only used for Kafka.
//! - **projection**: code that applies events to a read model ([`projection::Projection`]).
//! - **read model**: tables that a service queries, derived from the log.
//! - **follower**: a projection in a shard. It takes the events after its checkpoint from the topic,
//!   and from the log where the topic lacks the next one.
//! - **checkpoint**: the last position that a follower has applied.
//! - **claim**: a projector's share of the work: a shard that it applies, and that others leave alone
//!   while it renews the claim each second.
//! - **lag**: head minus checkpoint, in events. A *stale* read model lags.
//! - **generation**: one complete set of tables of a read model. Exactly one generation is *live*,
//!   that is, answers queries.
//! - **rebuild**: fills a new generation from the log. **swap**: the transaction that makes the new
//!   generation live.
//! - **poison event**: an event that a projection cannot apply. The account of a poison event is
//!   *parked*: its later events wait, in order, until an operator releases the account.
//! - **operation**: a changing command of an operator, recorded in an audit row.
//! - **consistency token**: names a position. A read that carries the token reflects every event up
//!   to the position, or is refused ([`consistency::ConsistencyToken`]).
//!
//! ## Clicks
//! - **click**: a request for a short link that was answered with a redirect ([`click::Click`]). Clicks are no
//!   events of the log.
//! - **recorder**: one run of query-api. A recorder numbers its clicks in each partition of the topic
//!   ([`click::RecorderId`]).
//! - **heartbeat**: row that a recorder writes to Postgres: an instant, before which all its clicks have
//!   numbers, and its last number in each partition.
//! - **counting**: sums clicks into figures, and stores the offset of the next click in the same
//!   transaction ([`click::tally`]).
//! - **figures**: clicks and visitors of a link or an account by time, or by value of a *dimension*
//!   ([`click::Dimension`]).
//!
//! # Features
//! Without features, the crate does no I/O and needs no async runtime: code decides and never
//! waits.
//!
//! - `http`: the event store, and code shared by the two HTTP services.
//! - `service`: code shared by all processes: settings, telemetry, shutdown, `doctor`, clients of Kafka.
//! - `clicks`: classification of clicks by their requests.
//! - `qr-codes`: QR codes of short addresses.
//! - `tls`: TLS and SCRAM for Kafka.

#![warn(missing_docs)]

pub mod account;
pub mod api_key;
pub mod batch;
pub mod click;
pub mod clock;
pub mod cloud_event;
pub mod config;
pub mod consistency;
pub mod credits;
pub mod csv_cell;
pub mod cursor;
pub mod envelope;
pub mod event;
pub mod fail_point;
pub mod fair_share;
pub mod field;
pub mod id;
pub mod json;
pub mod link;
pub mod link_history;
mod listed;
mod percent;
pub mod printable;
pub mod problem;
pub mod projection;
#[cfg(feature = "qr-codes")]
pub mod qr_code;
pub mod segment;
pub mod shard;
pub mod timestamp;

#[cfg(feature = "http")]
pub mod event_store;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod metrics;
#[cfg(feature = "http")]
pub mod migrations;
#[cfg(feature = "http")]
pub mod openapi;

#[cfg(feature = "service")]
pub mod databases;
#[cfg(feature = "service")]
pub mod doctor;
#[cfg(feature = "service")]
pub mod failure;
#[cfg(feature = "service")]
pub mod figures;
#[cfg(feature = "service")]
pub mod internal_listener;
#[cfg(feature = "service")]
pub mod kafka_close;
#[cfg(feature = "service")]
pub mod kafka_config;
#[cfg(feature = "service")]
pub mod kafka_errors;
#[cfg(feature = "service")]
pub mod kafka_leaders;
#[cfg(feature = "service")]
pub mod lifecycle;
#[cfg(feature = "service")]
pub mod log_identity;
#[cfg(feature = "service")]
pub mod metrics_recorder;
#[cfg(feature = "service")]
pub mod operator;
#[cfg(feature = "service")]
pub mod settings;
#[cfg(feature = "service")]
pub mod telemetry;
