//! Operators' commands that are at work, and those that have failed.

use linkledger_core::timestamp;
use serde::Serialize;
use sqlx::PgPool;

use crate::operations::audit::report::last_commands;

/// A command that takes long and has not ended.
#[derive(Debug, Clone, Serialize)]
pub struct RunningOperation {
    /// Its name, as it is typed.
    pub command: String,
    /// What it changes.
    pub projection: String,
    /// Who runs it.
    pub operator: String,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub started_at: String,
    /// Whether its process is heard of; if not, it has died, and the command is to be run again.
    pub is_alive: bool,
}

/// The last command of a name on a projection, within a day, that has not done what it was asked.
#[derive(Debug, Clone, Serialize)]
pub struct FailedOperation {
    /// Its name, as it is typed.
    pub command: String,
    /// What it was to change.
    pub projection: String,
    /// When it ended.
    pub failed_at: String,
    /// Why.
    pub detail: Option<String>,
}

/// All of them; those whose process has died are not among them, they still count as running.
pub(super) async fn read_failed(pool: &PgPool) -> sqlx::Result<Vec<FailedOperation>> {
    let last = last_commands(pool).await?.into_iter();
    let failed = last.filter(|it| it.has_failed).filter_map(|it| {
        Some(FailedOperation {
            failed_at: timestamp::format(it.finished_at?),
            command: it.command,
            projection: it.projection,
            detail: it.detail,
        })
    });
    Ok(failed.collect())
}

/// All of them: at most one for each projection.
pub(super) async fn read(pool: &PgPool) -> sqlx::Result<Vec<RunningOperation>> {
    let rows = sqlx::query!(
        r#"
        SELECT command, projection AS "projection!", operator, reason, started_at,
               lease_expires_at > clock_timestamp() AS "is_alive!"
        FROM read_model.operations
        WHERE finished_at IS NULL
        ORDER BY projection
        "#
    )
    .fetch_all(pool)
    .await?;
    let operations = rows.into_iter().map(|row| RunningOperation {
        command: row.command,
        projection: row.projection,
        operator: row.operator,
        reason: row.reason,
        started_at: timestamp::format(row.started_at),
        is_alive: row.is_alive,
    });
    Ok(operations.collect())
}
