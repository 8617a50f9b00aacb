//! The event store in Postgres, schema `event_store`: the record.
//!
//! Lock order everywhere: accounts by id, slugs by folded form, counters by shard. What is named
//! `…_in_tx` runs in the caller's transaction, which must be READ COMMITTED.

pub mod accounts;
pub mod api_keys;
pub mod append;
pub mod idempotency;
pub mod links;
pub mod log;
pub mod segments;
pub mod slugs;
pub mod time_limit;

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool,
    error::BoxDynError,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};
use std::{str::FromStr as _, time::Duration};

use crate::event::Event;

/// Longest wait for a connection, in seconds.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A session that was idle for longer is tested before it is used.
const UNTESTED_FOR_MAX: Duration = Duration::from_millis(500);

/// Longest time of a statement but for those of migrations, in seconds, as Postgres shows it.
pub const STATEMENT_TIMEOUT: &str = "5s";

/// How a pool's sessions behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// Locks rows for others: a frozen process must not stop them.
    Writer,
    /// As a writer, of what can be derived from the log again. Its commits don't wait for the
    /// disk: after a crash of Postgres rows and checkpoint are of one earlier moment, and the
    /// projector goes on from there.
    Projector,
    /// Reads, and writes single rows.
    Reader,
    /// Changes the schema; takes as long as that takes.
    Migration,
}

/// A pool of sessions on the database at `url`; connects when first used.
///
/// # Errors
/// When the address can't be parsed.
pub fn pool(url: &str, kind: SessionKind, connections_max: u32) -> sqlx::Result<PgPool> {
    let options = session_options(url, kind)?;
    Ok(PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A round trip before each use would be the most frequent statement of all. A session that
        // was in use a moment ago is most likely alive.
        .test_before_acquire(false)
        .before_acquire(|session, usage| {
            Box::pin(async move {
                if usage.idle_for > UNTESTED_FOR_MAX {
                    time_limit::test(session).await?;
                }
                Ok(true)
            })
        })
        // The pool waits without a limit for what a session still has to answer, and has one
        // session less until then.
        .after_release(|session, _| {
            Box::pin(async move {
                time_limit::settle(session).await?;
                Ok(true)
            })
        })
        .connect_lazy_with(options))
}

/// Looks whether the database at `url` lets us in. A pool would try again until its time is over
/// and then not tell why.
///
/// # Errors
/// What the server says, or why it can't be reached.
pub async fn check_connection(url: &str) -> sqlx::Result<()> {
    let options = session_options(url, SessionKind::Migration)?;
    let connecting = tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect());
    let session = connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    session.close().await
}

/// The settings of a session of that kind.
///
/// # Errors
/// When the address can't be parsed.
pub fn session_options(url: &str, kind: SessionKind) -> sqlx::Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)?.application_name("linkledger");
    check_tls(&options)?;
    if kind == SessionKind::Migration {
        return Ok(options);
    }
    let options = options.options([
        // A plan made while the tables were empty must not scan them when they are large: hot
        // statements touch rows by key only, and one generic plan for each is enough.
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("plan_cache_mode", "force_generic_plan"),
        // The costs that the settings above make up would have each statement compiled anew.
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
        SessionKind::Reader | SessionKind::Migration => options,
    })
}

/// Returns an error if the address asks for TLS and this build has none: better than the error of
/// each connection later.
fn check_tls(options: &PgConnectOptions) -> sqlx::Result<()> {
    let asks_for_tls = matches!(
        options.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    );
    if asks_for_tls && !cfg!(feature = "production") {
        let error = "this build has no TLS to Postgres, which the sslmode of the address asks for: \
                     build with --features production";
        return Err(sqlx::Error::Configuration(error.into()));
    }
    Ok(())
}

/// The event of that stored form; one that this release does not know is an error, never a guess.
fn decode(event_type: &str, schema_version: i16, payload: &str) -> sqlx::Result<Event> {
    Event::from_stored(event_type, schema_version, payload).map_err(unreadable)
}

/// The database holds what can't be read.
fn unreadable(error: impl Into<BoxDynError>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

/// The code by which Postgres tells its errors apart; `None` for an error that is not its own.
pub fn sqlstate(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error()?.code()?;
    (code.len() == 5).then(|| code.into_owned())
}

/// `lock_not_available`: somebody else has held a lock for too long.
pub fn is_lock_timeout(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|state| state == "55P03")
}
