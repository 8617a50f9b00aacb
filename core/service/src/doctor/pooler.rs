//! Detects a pooler in transaction or statement mode between the process and Postgres.
//!
//! Such a pooler gives a server session to other clients between two transactions. linkledger needs
//! sessions of its own: sessions keep settings and prepared statements, and the outcome of a commit
//! whose answer is lost is found by the locks of its session.

use anyhow::Context as _;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use super::Finding;
use linkledger_event_store::{SessionKind, errors::sqlstate};

/// Number of other sessions that begin a transaction. Whichever server session a pooler assigns
/// next, one of them receives the first session's.
const OTHERS: usize = 3;
/// Begins a transaction that may be idle while the other sessions are opened, which takes seconds on
/// a busy host: the sessions of services have a limit of one second.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '60s'";
/// `protocol_violation`: the answer of `PgBouncer` to a transaction in statement mode.
const PROTOCOL_VIOLATION: &str = "08P01";
const REMEDY: &str = "connect to Postgres itself, or set the pooler to session mode (PgBouncer: pool_mode = session)";

/// Opens several sessions and checks that the first keeps its own server session.
///
/// # Errors
/// Returns an error if the server does not answer.
pub async fn look(url: &str, kind: SessionKind) -> anyhow::Result<Finding> {
    let is_refused = |error: &sqlx::Error| sqlstate(error).as_deref() == Some(PROTOCOL_VIOLATION);
    match keeps_server_session(url, kind).await {
        Ok(true) => Ok(Finding::ok(
            "pooler",
            "each session has a server session of its own",
        )),
        Ok(false) => {
            let is = "sessions are shared between transactions";
            Ok(Finding::error("pooler", is, REMEDY))
        }
        Err(error) if is_refused(&error) => {
            let is = format!("transactions are refused ({error})");
            Ok(Finding::error("pooler", is, REMEDY))
        }
        Err(error) => Err(error).context("cannot connect to the database"),
    }
}

/// Returns true if a session keeps its server session while other sessions begin transactions.
/// Returns false as soon as another session has the server session of the first: a small pooler would
/// have no server session left for the next statement.
async fn keeps_server_session(url: &str, kind: SessionKind) -> sqlx::Result<bool> {
    let options = linkledger_event_store::session_options(url, kind)?;
    let mut session = options.connect().await?;
    let before = identity(&mut session).await?;
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        let mut other = options.connect().await?;
        sqlx::raw_sql(BEGIN).execute(&mut other).await?;
        if identity(&mut other).await? == before {
            return Ok(false);
        }
        others.push(other);
    }
    let after = identity(&mut session).await?;
    for mut other in others {
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await?;
        other.close().await?;
    }
    session.close().await?;
    Ok(before == after)
}

async fn identity(session: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::query_scalar("SELECT pg_backend_pid()")
        .persistent(false)
        .fetch_one(session)
        .await
}
