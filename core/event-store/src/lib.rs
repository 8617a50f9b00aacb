//! The event store in Postgres, schema `event_store`: the source of truth.
//!
//! Locks are always taken in this order: accounts by id, webhooks before their cursors and deliveries, slugs by key,
//! counters by shard.
//! Functions named `…_in_tx` run in the caller's transaction, which must be READ COMMITTED.

#![warn(missing_docs)]

pub mod accounts;
pub mod admin_keys;
pub mod api_keys;
pub mod append;
pub mod console_sessions;
pub mod errors;
pub mod external_ids;
pub mod idempotency;
pub mod link_expiries;
pub mod links;
pub mod log;
pub mod log_meta;
pub mod migrations;
pub mod names;
pub mod observations;
pub mod segments;
pub mod slugs;
pub mod time_limit;
pub mod transaction;
pub mod webhooks;

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool,
    error::BoxDynError,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{str::FromStr as _, time::Duration};

use linkledger_core::event::Event;

/// Longest wait for a connection of the pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximal idle time of a session, in milliseconds, after which the session is tested before use.
const UNTESTED_FOR_MAX: Duration = Duration::from_millis(500);

/// Statement timeout of all sessions but those for migrations, in seconds, as Postgres shows the
/// setting.
pub const STATEMENT_TIMEOUT: &str = "5s";

/// Kind of a pool's sessions: decides timeouts and durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// Locks rows that other processes need. A timeout ends its transactions, so that a frozen
    /// process cannot block the others.
    Writer,
    /// Like a writer, for data that can be derived from the log again. Commits do not wait for the
    /// disk: after a crash of Postgres, rows and checkpoint are both of one earlier moment, and the
    /// projector continues from that checkpoint.
    Projector,
    /// Reads, and writes single rows.
    Reader,
    /// Reads from a server that accepts no writes.
    Replica,
    /// Changes the schema, without a statement timeout.
    Migration,
}

/// Returns a pool of sessions on the database at `url`. The pool connects when first used.
///
/// sqlx pings each released session, and waits without a limit for the answer: a server that falls silent
/// just then takes one session until TCP gives up, some 15 minutes later. What must go on meanwhile
/// needs two sessions at least.
///
/// # Errors
/// Returns an error if the address cannot be parsed.
pub fn pool(url: &str, kind: SessionKind, connections_max: u32) -> sqlx::Result<PgPool> {
    let options = session_options(url, kind)?;
    Ok(PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A test before each use would be the most frequent statement of all. A session that was
        // used a moment ago is most likely alive.
        .test_before_acquire(false)
        .before_acquire(move |session, usage| {
            Box::pin(async move {
                if usage.idle_for <= UNTESTED_FOR_MAX {
                    return Ok(true);
                }
                if kind == SessionKind::Replica {
                    return time_limit::answers(session).await;
                }
                time_limit::is_usable(session).await
            })
        })
        // Receives outstanding answers with a time limit, or closes the session. The pool itself
        // would wait without a limit, with one session less.
        .after_release(|session, _| {
            Box::pin(async move {
                time_limit::settle(session).await?;
                Ok(true)
            })
        })
        .connect_lazy_with(options))
}

/// Connects once to the database at `url`. A pool would retry until its timeout and then hide the
/// cause.
///
/// # Errors
/// Returns the error of the server, or the reason why the server cannot be reached.
pub async fn check_connection(url: &str) -> sqlx::Result<()> {
    let options = session_options(url, SessionKind::Migration)?;
    let connecting = tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect());
    let session = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    session.close().await
}

/// Returns the connection options of a session of this kind.
///
/// # Errors
/// Returns an error if the address cannot be parsed.
pub fn session_options(url: &str, kind: SessionKind) -> sqlx::Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)?.application_name("linkledger");
    if kind == SessionKind::Migration {
        return Ok(options);
    }
    let options = options.options([
        // A plan made while a table was empty must not scan the table later, when the table is
        // large. Hot statements find rows by key, so one generic plan for each statement is enough.
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        // A bitmap holds every matching row before the first one is returned, also below a LIMIT.
        ("enable_bitmapscan", "off"),
        ("plan_cache_mode", "force_generic_plan"),
        // The settings above raise the estimated costs, which would trigger a JIT compilation of
        // each statement.
        ("jit", "off"),
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("default_transaction_isolation", "read committed"),
        ("tcp_keepalives_idle", "5"),
        ("tcp_keepalives_interval", "2"),
        ("tcp_keepalives_count", "3"),
    ]);
    let bounded_locks = [
        ("idle_in_transaction_session_timeout", "1s"),
        ("lock_timeout", "1s"),
    ];
    Ok(match kind {
        SessionKind::Writer => options.options(bounded_locks),
        SessionKind::Projector => options
            .options(bounded_locks)
            .options([("synchronous_commit", "off")]),
        SessionKind::Reader | SessionKind::Replica | SessionKind::Migration => options,
    })
}

/// Decodes a stored event. An event that this release does not know is an error.
fn decode(event_type: &str, schema_version: i16, payload: &str) -> sqlx::Result<Event> {
    Event::from_stored(event_type, schema_version, payload).map_err(unreadable)
}

/// Returns the error for stored data that cannot be read.
fn unreadable(error: impl Into<BoxDynError>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}
