//! The oldest snapshot on the server: as long as it is held, dead versions of rows can't be
//! removed, and each append reads more of them.

use serde::Serialize;
use sqlx::PgPool;

/// Held for longer, in seconds, a snapshot waits for an operator; the alert says the same.
pub const AGE_MAX_S: f64 = 30.0;

/// What is known of the snapshots that sessions hold.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshots {
    /// Whether all sessions could be looked at; otherwise only those of our own role, and an older
    /// snapshot may be held by another.
    pub is_complete: bool,
    /// The oldest one.
    pub oldest: Option<Snapshot>,
}

/// A transaction that keeps old versions of rows alive.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    /// For how long it has been held.
    pub age_seconds: f64,
    /// The server's process that holds it; none for a prepared transaction.
    pub pid: Option<i32>,
    /// Who has opened the session, or has prepared the transaction.
    pub user: String,
    /// What the session calls itself; the name of a prepared transaction.
    pub application_name: String,
    /// `active`, `idle in transaction`, …; `prepared` without a session.
    pub state: String,
}

/// Reads it. A transaction of another database counts only once it has changed something: until
/// then it holds nothing up here. A vacuum never does.
///
/// # Errors
/// When the database does not answer.
pub async fn read(pool: &PgPool) -> sqlx::Result<Snapshots> {
    let is_complete = sqlx::query_scalar!(
        r#"SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS "is_complete!""#
    )
    .fetch_one(pool)
    .await?;
    let oldest = sqlx::query_as!(
        Snapshot,
        r#"
        SELECT extract(epoch FROM clock_timestamp() - held.since)::float8 AS "age_seconds!",
               held.pid AS "pid?", coalesce(held.user_name, '')::text AS "user!",
               coalesce(held.application_name, '') AS "application_name!",
               coalesce(held.state, '') AS "state!"
        FROM (
            SELECT xact_start AS since, pid, usename AS user_name, application_name, state
            FROM pg_stat_activity
            WHERE pid <> pg_backend_pid()
              AND (backend_xid IS NOT NULL
                   OR backend_xmin IS NOT NULL AND datname = current_database())
              AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
            UNION ALL
            SELECT prepared, NULL, owner, gid, 'prepared' FROM pg_prepared_xacts
        ) AS held
        WHERE held.since IS NOT NULL
        ORDER BY held.since
        LIMIT 1
        "#
    )
    .fetch_optional(pool)
    .await?;
    Ok(Snapshots {
        is_complete,
        oldest,
    })
}
