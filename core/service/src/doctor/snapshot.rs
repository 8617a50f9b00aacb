//! The oldest snapshot on the server.
//!
//! While a snapshot is held, dead versions of rows cannot be removed, and each append reads more of
//! them.

use serde::Serialize;
use sqlx::PgPool;
use utoipa::ToSchema;

/// Maximal age of a snapshot, in seconds, before an operator should act. The alert uses the same
/// value.
pub const AGE_MAX_S: f64 = 30.0;

/// Snapshots that sessions hold.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HeldSnapshots {
    /// True if the role may see all sessions. Otherwise only sessions of the same role are visible,
    /// and another role may hold an older snapshot.
    pub is_complete: bool,
    /// Oldest snapshot, if any is held.
    pub oldest: Option<HeldSnapshot>,
}

/// A transaction that keeps old versions of rows alive.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HeldSnapshot {
    /// Age of the snapshot, in seconds.
    pub age_seconds: f64,
    /// Process id of the server process that holds the snapshot; none for a prepared transaction.
    pub pid: Option<i32>,
    /// User who opened the session or prepared the transaction.
    pub user: String,
    /// Application name of the session, or name of the prepared transaction.
    pub application_name: String,
    /// State of the session: `active`, `idle in transaction`, …; `prepared` for a prepared
    /// transaction.
    pub state: String,
}

/// Reads the oldest snapshot. A transaction in another database counts only after its first change;
/// until then, the transaction does not prevent cleanup here. A vacuum never counts.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read(pool: &PgPool) -> sqlx::Result<HeldSnapshots> {
    let is_complete = sqlx::query_scalar!(
        r#"SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS "is_complete!""#
    )
    .fetch_one(pool)
    .await?;
    let oldest = sqlx::query_as!(
        HeldSnapshot,
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
    Ok(HeldSnapshots {
        is_complete,
        oldest,
    })
}
