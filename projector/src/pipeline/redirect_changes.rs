//! Prunes old rows of the table `read_model.redirect_changes`.

use std::time::Duration;

use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::pipeline::periodic::Periodic;

/// Retention of a change.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// Interval of the pruning. A full batch is followed by the next one at once.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of rows that one statement deletes.
pub const PRUNED_MAX: u16 = 1_000;

/// Deletes the oldest changes, at most [`PRUNED_MAX`]. The highest number is never deleted, nor any
/// number above the first change within the retention. Returns the number of deleted rows.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn prune(pool: &PgPool) -> sqlx::Result<u64> {
    let result = sqlx::query!(
        "
        WITH oldest AS (
            SELECT number, changed_at FROM read_model.redirect_changes
            ORDER BY number
            LIMIT $1::bigint + 1
        )
        DELETE FROM read_model.redirect_changes
        WHERE number < (
            SELECT coalesce(
                min(number) FILTER (WHERE changed_at > now() - make_interval(secs => $2)),
                max(number)
            )
            FROM oldest
        )
        ",
        i64::from(PRUNED_MAX),
        KEPT_FOR.as_secs_f64()
    )
    .execute(pool)
    .await?;
    Ok(result.rows_affected())
}

/// Prunes once per `PRUNE_INTERVAL` until the shutdown. A failure is logged and retried: without
/// pruning, only the table grows.
///
/// # Errors
/// Never returns an error.
pub async fn keep_pruned(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut periodic = Periodic::new(PRUNE_INTERVAL, shutdown);
    while periodic.is_due().await {
        match within(ANSWER_TIME_MAX, prune(&pool)).await {
            Ok(removed) if removed >= PRUNED_MAX.into() => periodic.reset_immediately(),
            Ok(_) => {}
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot prune redirect changes; retrying in {PRUNE_INTERVAL:?}"
            ),
        }
    }
    Ok(())
}
