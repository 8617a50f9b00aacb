//! Lag of the statistics of clicks, as stored: for an alert.

use std::time::Duration;

use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
use linkledger_service::metrics::CLICKS_COMPLETE_UNTIL_AGE_SECONDS;
use metrics::gauge;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::pipeline::periodic::Periodic;

/// Interval of the report.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reports the lag in a metric, once per `INTERVAL` until the shutdown. A failure is logged and retried.
///
/// # Errors
/// Never returns an error.
pub async fn keep_reported(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut periodic = Periodic::new(INTERVAL, shutdown);
    while periodic.is_due().await {
        if let Err(error) = within(ANSWER_TIME_MAX, report(&pool)).await {
            tracing::debug!(%error, "cannot report the lag of the statistics of clicks");
        }
    }
    Ok(())
}

async fn report(pool: &PgPool) -> sqlx::Result<()> {
    let age = sqlx::query_scalar!(r#"SELECT clicks.lag_seconds() AS "age!""#)
        .fetch_one(pool)
        .await?;
    gauge!(CLICKS_COMPLETE_UNTIL_AGE_SECONDS).set(age);
    Ok(())
}
