//! Metric of the oldest snapshot of the database.

use std::time::Duration;

use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
pub use linkledger_service::doctor::snapshot::{AGE_MAX_S, HeldSnapshot, HeldSnapshots, read};
use linkledger_service::metrics::OLDEST_SNAPSHOT_AGE_SECONDS;
use metrics::gauge;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::pipeline::periodic::Periodic;

/// Interval between two updates of the gauge.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Sets the gauge until the shutdown. Logs a failure and retries at the next interval.
///
/// # Errors
/// Never returns an error.
pub async fn keep_reported(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut periodic = Periodic::new(REPORT_INTERVAL, shutdown);
    while periodic.is_due().await {
        match within(ANSWER_TIME_MAX, read(&pool)).await {
            Ok(HeldSnapshots { oldest, .. }) => {
                gauge!(OLDEST_SNAPSHOT_AGE_SECONDS).set(oldest.map_or(0.0, |it| it.age_seconds));
            }
            Err(error) => tracing::debug!(error = %error, "cannot read the oldest snapshot"),
        }
    }
    Ok(())
}
