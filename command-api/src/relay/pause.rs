//! Pause of the relay, by an operator or a republish. The pause is stored: it applies to all processes
//! within a second, and after restarts.

use anyhow::Context as _;
use serde::Serialize;
use sqlx::{PgExecutor, PgPool};

/// Stored pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Start of the pause.
    pub since: String,
    /// Operator or command that has paused the relay.
    pub by: String,
    /// Reason, for `relay status`.
    pub reason: String,
}

/// End of the last pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resumption {
    /// End of the pause.
    pub at: String,
    /// Operator who has ended the pause, or whose republish has.
    pub by: String,
}

/// Value of `paused_by` while a republish is in progress. The pause of an operator replaces that of a republish,
/// which ends with the republish; otherwise an earlier pause keeps its reason.
pub(super) const REPUBLISH: &str = "relay republish";

/// Pauses every shard. Returns true if the pause of at least one shard is new.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn begin(pool: &PgPool, by: &str, reason: &str) -> anyhow::Result<bool> {
    let paused = sqlx::query!(
        "
        UPDATE event_store.relay_cursors AS c
        SET paused_at = now(), paused_by = $1, pause_reason = $2
        FROM (SELECT shard FROM event_store.relay_cursors
              WHERE paused_at IS NULL OR paused_by = $3
              ORDER BY shard FOR NO KEY UPDATE) AS running
        WHERE c.shard = running.shard
        ",
        by,
        reason,
        REPUBLISH
    )
    .execute(pool)
    .await
    .context("cannot pause the relay")?;
    Ok(paused.rows_affected() > 0)
}

/// Resumes the shards that `paused_by` has paused, or all shards if it is `None`, in the name of an operator. Returns
/// true if a shard was paused.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn end(
    executor: impl PgExecutor<'_>,
    paused_by: Option<&str>,
    operator: &str,
) -> anyhow::Result<bool> {
    let resumed = sqlx::query!(
        "
        UPDATE event_store.relay_cursors AS c
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, resumed_at = now(), resumed_by = $2
        FROM (SELECT shard FROM event_store.relay_cursors
              WHERE paused_at IS NOT NULL AND ($1::text IS NULL OR paused_by = $1)
              ORDER BY shard FOR NO KEY UPDATE) AS paused
        WHERE c.shard = paused.shard
        ",
        paused_by,
        operator
    )
    .execute(executor)
    .await
    .context("cannot resume the relay")?;
    Ok(resumed.rows_affected() > 0)
}
