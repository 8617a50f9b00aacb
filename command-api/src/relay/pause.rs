//! An operator's wish that nothing be published for now. It is stored, so it holds for all
//! processes within a second, and after restarts.

use anyhow::Context as _;
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;

/// Since when, by whom and why nothing is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Since when.
    pub at: OffsetDateTime,
    /// By whom.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// The pause, if there is one.
///
/// # Errors
/// When the database does not answer.
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
    .context("can't read whether the relay is paused")
}

/// Lets no shard be published; one that is paused already keeps its reason. Returns whether any
/// was not.
///
/// # Errors
/// When the database does not answer.
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
    .context("can't pause the relay")?;
    Ok(paused.rows_affected() > 0)
}

/// Lets every shard be published that `by` has paused, or anybody. Returns whether any was.
///
/// # Errors
/// When the database does not answer.
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
    .context("can't resume the relay")?;
    Ok(resumed.rows_affected() > 0)
}
