//! Pause of the relay, by an operator or a refill. The pause is stored: it applies to all processes
//! within a second, and after restarts.

use anyhow::Context as _;
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;

/// Stored pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Begin of the pause.
    pub at: OffsetDateTime,
    /// Operator or command that has paused the relay.
    pub by: String,
    /// Reason, for `relay status`.
    pub reason: String,
}

/// Reads the pause of the lowest paused shard; `None` if no shard is paused.
///
/// # Errors
/// Returns an error if the database does not answer.
pub async fn find(pool: &PgPool) -> anyhow::Result<Option<Pause>> {
    sqlx::query_as!(
        Pause,
        r#"
        SELECT paused_at AS "at!", coalesce(paused_by, '') AS "by!",
               coalesce(pause_reason, '') AS "reason!"
        FROM event_store.relay_cursors WHERE paused_at IS NOT NULL ORDER BY shard LIMIT 1
        "#
    )
    .fetch_optional(pool)
    .await
    .context("cannot read whether the relay is paused")
}

/// Pauses every shard; an earlier pause keeps its reason. Returns true if at least one
/// shard was running.
///
/// # Errors
/// Returns an error if the database does not answer.
pub async fn begin(pool: &PgPool, by: &str, reason: &str) -> anyhow::Result<bool> {
    let paused = sqlx::query!(
        "
        UPDATE event_store.relay_cursors AS c
        SET paused_at = now(), paused_by = $1, pause_reason = $2
        FROM (SELECT shard FROM event_store.relay_cursors WHERE paused_at IS NULL
              ORDER BY shard FOR NO KEY UPDATE) AS running
        WHERE c.shard = running.shard
        ",
        by,
        reason
    )
    .execute(pool)
    .await
    .context("cannot pause the relay")?;
    Ok(paused.rows_affected() > 0)
}

/// Resumes the shards that `by` has paused, or all shards if `by` is `None`. Returns true if a shard
/// was paused.
///
/// # Errors
/// Returns an error if the database does not answer.
pub async fn end(executor: impl PgExecutor<'_>, by: Option<&str>) -> anyhow::Result<bool> {
    let resumed = sqlx::query!(
        "
        UPDATE event_store.relay_cursors AS c
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
        FROM (SELECT shard FROM event_store.relay_cursors
              WHERE paused_at IS NOT NULL AND ($1::text IS NULL OR paused_by = $1)
              ORDER BY shard FOR NO KEY UPDATE) AS paused
        WHERE c.shard = paused.shard
        ",
        by
    )
    .execute(executor)
    .await
    .context("cannot resume the relay")?;
    Ok(resumed.rows_affected() > 0)
}
