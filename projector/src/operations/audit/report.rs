//! Metric of operators' commands that have failed, for an alert. The projector reports the metric, because the process
//! of a failed command has ended.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use linkledger_core::clock::{Clock as _, SystemClock};
use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
use linkledger_service::metrics::OPERATION_FAILED;
use metrics::gauge;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::{RecordedCommand, recorded};
use crate::pipeline::periodic::Periodic;

/// Interval between two updates of the gauges.
const INTERVAL: Duration = Duration::from_secs(5);
/// Number of the latest commands to read.
pub(crate) const COMMANDS_MAX: i64 = 1_000;
/// Age of the oldest failure to report.
const FAILURE_AGE_MAX: Duration = Duration::from_hours(24);

/// Returns the last command of each name on each projection, except commands with an
/// end more than a day ago.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn last_commands(pool: &PgPool) -> sqlx::Result<Vec<RecordedCommand>> {
    Ok(last_of(&recorded(pool, COMMANDS_MAX).await?))
}

/// Returns the last command of each name on each projection; `newest_first` has all commands.
pub(crate) fn last_of(newest_first: &[RecordedCommand]) -> Vec<RecordedCommand> {
    let since = SystemClock.now() - FAILURE_AGE_MAX;
    let mut last = BTreeMap::new();
    for it in newest_first {
        let is_recent = it.finished_at.is_none_or(|at| at > since);
        if let Some(projection) = it.projection.as_deref().filter(|_| is_recent) {
            last.entry((projection, &it.command)).or_insert(it);
        }
    }
    last.into_values().cloned().collect()
}

/// Sets the gauges until the shutdown. Logs a failure and retries at the next interval.
///
/// # Errors
/// Never returns an error.
pub async fn keep_reported(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut shown = HashSet::new();
    let mut periodic = Periodic::new(INTERVAL, shutdown);
    while periodic.is_due().await {
        if let Err(error) = within(ANSWER_TIME_MAX, report(&pool, &mut shown)).await {
            tracing::debug!(error = %error, "cannot read the outcomes of operators' commands; retrying");
        }
    }
    Ok(())
}

/// Sets the gauges. `shown` has the commands with a gauge, by name and projection.
async fn report(pool: &PgPool, shown: &mut HashSet<(String, String)>) -> sqlx::Result<()> {
    let mut forgotten = std::mem::take(shown);
    for last in last_commands(pool).await? {
        let has_failed = last.has_failed();
        let labels = (last.command, last.projection.unwrap_or_default());
        show(&labels.0, &labels.1, has_failed);
        forgotten.remove(&labels);
        shown.insert(labels);
    }
    for (command, projection) in forgotten {
        show(&command, &projection, false);
    }
    Ok(())
}

fn show(command: &str, projection: &str, has_failed: bool) {
    let labels = [
        ("command", command.to_owned()),
        ("projection", projection.to_owned()),
    ];
    gauge!(OPERATION_FAILED, &labels).set(if has_failed { 1.0 } else { 0.0 });
}
