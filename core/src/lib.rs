//! The domain of linkledger: decides and never waits, without I/O and without an async runtime.
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
//! - **API key**: secret of an account for the public API ([`api_key::ApiKey`]). **admin key**: secret of an
//!   operator for the admin API ([`api_key::AdminKey`]).
//! - **webhook**: an address that receives messages about events; a *delivery* is one message to it
//!   ([`webhook::Webhook`]).
//! - **console session**: lets the owner of an account into the console once, by a code that is exchanged for an API
//!   key ([`console_code::ConsoleCode`]).
//! - **command**: a request to change something. A command may be rejected and is never stored
//!   ([`commands::LinkCommand`]).
//! - **event**: a fact in the past tense. Events are stored forever and never changed
//!   ([`event::Event`]).
//! - **observation**: an event that no command caused: time passed, or clicks were counted
//!   ([`observation::ObservationEvent`]). **observer**: the task of each command-api that appends observations.
//! - **aggregate**: the boundary of consistency. An aggregate *decides* (turns a command into
//!   events) and *applies* (derives its state from events). The aggregates are [`link::ExistingLink`],
//!   [`account::Account`], [`api_key::KeyState`], [`webhook::Webhook`] and [`credits::Credits`]; the last four
//!   share the stream of their account.
//! - **state of a link**: all that a link is after one of its events. A creation carries the state by
//!   its payload, every other event in its metadata ([`link::LinkState`]).
//! - **envelope**: an event with its metadata: [`envelope::NewEvent`] before the append,
//!   [`envelope::RecordedEvent`] after the append.
//! - **commit group**: the commands that a writer decides and appends in one transaction ([`commands::CommitGroup`]).
//! - **idempotency key**: chosen by the client. Requests with the same key have one effect
//!   ([`commands::IdempotencyKey`]).
//!
//! ## Log
//! - **log**: all events, in [`shard::SHARD_COUNT`] shards. Also called *event store*
//!   (`core/event-store`).
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
//! - **feed**: the events of one account in the order of the log, which its owner reads over HTTP.
//! - **webhook**: address of an owner, or of an operator, that receives messages ([`webhook::Webhook`]).
//! - **message**: signed request about one event ([`webhook::MessageType`]). **receiver**: the server that answers.
//! - **cursor of a webhook**: place in the log. Wanted events before it are delivered, or kept as deliveries.
//! - **delivery**: a message with a schedule of its own, since it was refused or is a test; or a record of one that was
//!   accepted.
//! - **dispatcher**: the process that sends messages. An *ill* receiver fails all; the dispatcher sends probes to it.
//! - **projection**: code that applies events to a read model ([`projection::Projection`]).
//! - **read model**: tables that a service queries, derived from the log.
//! - **follower**: a projection, which has a checkpoint in each shard and takes the events after it from the topic, and
//!   from the log where the topic lacks the next one; or the aggregation of clicks.
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
//! - **click**: a request for a short link that was answered with a redirect (`linkledger_clicks::Click`). Clicks are no
//!   events of the log.
//! - **recorder**: one run of query-api. A recorder numbers its clicks in each partition of the topic
//!   (`linkledger_clicks::RecorderId`).
//! - **heartbeat**: row that a recorder writes to Postgres: an instant, before which all its clicks have
//!   numbers, and its last number in each partition.
//! - **aggregation**: sums clicks into statistics, and stores the offset of the next click in the same
//!   transaction (`linkledger_clicks::tally`).
//! - **statistics**: clicks and visitors of a link or an account by time, or by value of a *dimension*
//!   (`linkledger_clicks::Dimension`).
//!
//! # Floors
//! This crate does no I/O and needs no async runtime. Above stand `core/clicks` (clicks, without I/O too),
//! `core/event-store` (the log in Postgres), `core/service` (all that long-running processes share) and
//! `core/http` (what the HTTP services share).

#![warn(missing_docs)]

pub mod account;
pub mod api_key;
pub mod change;
pub mod clock;
pub mod cloud_event;
pub mod commands;
pub mod config;
pub mod consistency;
pub mod console_code;
pub mod credits;
pub mod csv_cell;
pub mod cursor;
pub mod envelope;
pub mod event;
pub mod fair_share;
pub mod field;
pub mod id;
pub mod json;
pub mod link;
pub mod link_history;
mod listed;
pub mod observation;
pub mod percent;
pub mod printable;
pub mod projection;
pub mod qr_code;
pub mod schemas;
pub mod segment;
pub mod shard;
pub mod timestamp;
pub mod webhook;
