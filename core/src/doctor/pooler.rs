//! Whether something between us and Postgres gives our session's place to others between two
//! transactions, as poolers in transaction or statement mode do.
//!
//! Our sessions keep settings and prepared statements, and a commit whose answer is lost is looked
//! for by who holds a lock: all of that needs a server's session of our own.

use anyhow::Context as _;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use super::{Finding, Verdict};
use crate::event_store::{self, SessionKind, sqlstate};

/// Others that begin a transaction meanwhile: whichever server's session a pooler gives out next,
/// one of them has ours.
const OTHERS: usize = 3;
/// `protocol_violation`: what `PgBouncer` says of a transaction in statement mode.
const PROTOCOL_VIOLATION: &str = "08P01";
const REMEDY: &str = "connect to Postgres itself, or set the pooler to session mode (PgBouncer: pool_mode = session)";

/// Looks with some sessions of its own.
///
/// # Errors
/// When the server does not answer.
pub async fn look(url: &str, kind: SessionKind) -> anyhow::Result<Finding> {
    let survives = survives(url, kind).await;
    let is_refused = |error: &sqlx::Error| sqlstate(error).as_deref() == Some(PROTOCOL_VIOLATION);
    match survives {
        Ok(true) => Ok(Finding::ok("pooler", "each session is ours alone")),
        Ok(false) => Ok(Finding::new(
            "pooler",
            Verdict::Error,
            "sessions are shared between transactions",
            REMEDY,
        )),
        Err(error) if is_refused(&error) => {
            let is = format!("transactions are refused ({error})");
            Ok(Finding::new("pooler", Verdict::Error, is, REMEDY))
        }
        Err(error) => Err(error).context("can't connect to the database"),
    }
}

/// Whether a session is the same one after others have begun transactions.
async fn survives(url: &str, kind: SessionKind) -> sqlx::Result<bool> {
    let options = event_store::session_options(url, kind)?;
    let mut session = options.connect().await?;
    let before = identity(&mut session).await?;
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        let mut other = options.connect().await?;
        sqlx::raw_sql("BEGIN").execute(&mut other).await?;
        sqlx::raw_sql("SELECT 1").execute(&mut other).await?;
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
