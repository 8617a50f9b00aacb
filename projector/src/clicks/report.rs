//! State of the counting, as stored: for metrics, the status and the console.

use std::time::Duration;

use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
use linkledger_service::metrics::{
    CLICK_RECORDERS, CLICKS_COMPLETE_UNTIL_AGE_SECONDS, CLICKS_LAST_BATCH_AGE_SECONDS,
};
use metrics::gauge;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::pipeline::periodic::Periodic;

/// Interval of the report.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reports the state of the counting in metrics, once per `INTERVAL` until the shutdown. A failure is logged and
/// retried.
///
/// # Errors
/// Never returns an error.
pub async fn keep_reported(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut periodic = Periodic::new(INTERVAL, shutdown);
    while periodic.is_due().await {
        if let Err(error) = within(ANSWER_TIME_MAX, report(&pool)).await {
            tracing::debug!(%error, "cannot report the state of the counting of clicks");
        }
    }
    Ok(())
}

async fn report(pool: &PgPool) -> sqlx::Result<()> {
    let row = sqlx::query!(
        r#"
        SELECT clicks.lag_seconds() AS "complete_until_age!",
               extract(epoch FROM now() - max(counted_at))::double precision AS last_batch_age, (
                   SELECT count(*)::double precision FROM clicks.recorders
                   WHERE ended_at IS NULL AND seen_at > now() - interval '60 s'
               ) AS "recorders!"
        FROM clicks.positions
        "#
    )
    .fetch_one(pool)
    .await?;
    gauge!(CLICKS_COMPLETE_UNTIL_AGE_SECONDS).set(row.complete_until_age);
    gauge!(CLICKS_LAST_BATCH_AGE_SECONDS).set(row.last_batch_age.unwrap_or(0.0).max(0.0));
    gauge!(CLICK_RECORDERS).set(row.recorders);
    Ok(())
}
