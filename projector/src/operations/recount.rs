//! Count of clicks again from the topic, by an operator.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use linkledger_event_store::time_limit::within;
use linkledger_service::{databases::Databases, kafka_config::KafkaConfig, lifecycle};
use serde::Serialize;
use sqlx::PgConnection;

use crate::{
    clicks::recount::{Recount, RecountScope, Recounted},
    operations::{
        audit::{self, OperationOutcome, OperatorCommand},
        number_format::{counted, grouped},
    },
    progress::ProgressReport,
};

/// Longest wait for a rollback, which waits for the running statement.
const ROLLBACK_TIME_MAX: Duration = Duration::from_secs(10);
/// Outcome of a failure before the commit.
const UNCHANGED: &str = "the statistics are as before";

/// Operator of a command, with the reason.
pub type OperatorName<'a> = (&'a str, Option<&'a str>);

/// Outcome of a recount, or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecountReport {
    /// True if nothing was changed.
    pub dry_run: bool,
    /// First UTC day, such as `2026-11-23`.
    pub from: String,
    /// Records that were read.
    pub records: u64,
    /// Records of them with clicks of the days, repeats included.
    pub records_of_days: u64,
    /// Clicks of the statistics before, bots included.
    pub clicks_before: i64,
    /// Clicks of the new statistics; absent for a dry run.
    pub clicks: Option<i64>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Returns what a recount would count. Changes nothing.
///
/// # Errors
/// Returns a [`RecountRefusal`](crate::clicks::recount::RecountRefusal) that is found before the aggregation starts, or
/// an error of the database or of Kafka.
pub async fn preview(
    databases: &Databases,
    kafka: &KafkaConfig,
    scope: RecountScope,
    progress: &ProgressReport,
) -> anyhow::Result<RecountReport> {
    let begun_at = Instant::now();
    let previewed = Recount::new(databases, kafka, scope, progress)
        .await?
        .preview()
        .await?;
    Ok(RecountReport {
        dry_run: true,
        clicks: None,
        ..RecountReport::new(scope, previewed, begun_at)
    })
}

/// Replaces the statistics, and records the command, in one transaction, for which the aggregation waits. A failure or
/// a signal before the commit changes nothing.
///
/// # Errors
/// Returns a [`RecountRefusal`](crate::clicks::recount::RecountRefusal), or an error of the database or of Kafka.
pub async fn recount(
    databases: &Databases,
    kafka: &KafkaConfig,
    scope: RecountScope,
    operator: OperatorName<'_>,
    progress: &ProgressReport,
) -> anyhow::Result<RecountReport> {
    let begun_at = Instant::now();
    let mut recount = Recount::new(databases, kafka, scope, progress)
        .await
        .context(UNCHANGED)?;
    let mut tx = recount.begin().await.context(UNCHANGED)?;
    let interrupted = lifecycle::interrupted()?;
    let replaced = tokio::select! {
        biased;
        replaced = recount.replace_in_tx(&mut tx) => replaced,
        () = interrupted => Err(anyhow!("ended by a signal")),
    };
    let recounted = match replaced {
        Ok(recounted) => recounted,
        Err(error) => {
            // A broken connection has no locks any more.
            if let Err(error) = within(ROLLBACK_TIME_MAX, tx.rollback()).await {
                tracing::debug!(%error, "cannot roll back a recount");
            }
            return Err(error.context(UNCHANGED));
        }
    };
    let recorded = record_in_tx(&mut tx, scope, &recounted, operator).await;
    recorded.context(UNCHANGED)?;
    let committed = tx.commit().await;
    committed.context("cannot read the outcome of the commit: run the command again")?;
    Ok(RecountReport::new(scope, recounted, begun_at))
}

async fn record_in_tx(
    tx: &mut PgConnection,
    scope: RecountScope,
    recounted: &Recounted,
    (operator, reason): OperatorName<'_>,
) -> sqlx::Result<()> {
    let from = scope.from.to_string();
    let command = OperatorCommand {
        name: "recount",
        projections: &[],
        subject: Some(&from),
        operator,
        reason,
    };
    let clicks = |clicks: i64| counted(clicks.unsigned_abs(), "click");
    let detail = format!(
        "{} of {}, {} before",
        clicks(recounted.clicks),
        counted(recounted.records, "record"),
        clicks(recounted.clicks_before)
    );
    audit::record_in_tx(tx, &command, OperationOutcome::Done, &detail).await
}

impl RecountReport {
    fn new(scope: RecountScope, recounted: Recounted, begun_at: Instant) -> Self {
        Self {
            dry_run: false,
            from: scope.from.to_string(),
            records: recounted.records,
            records_of_days: recounted.records_of_days,
            clicks_before: recounted.clicks_before,
            clicks: Some(recounted.clicks),
            seconds: begun_at.elapsed().as_secs_f64(),
        }
    }
}

impl fmt::Display for RecountReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, before) = (&self.from, grouped(self.clicks_before));
        let records = counted(self.records, "record");
        let of_days = grouped(self.records_of_days.cast_signed());
        match self.clicks {
            None => write!(
                f,
                "The statistics since {from} UTC have {before} clicks. {records} of the topic were read, {of_days} of \
                 them with clicks since {from}: the statistics would be deleted, and made again from those. Nothing \
                 refuses it before the count."
            ),
            Some(clicks) => write!(
                f,
                "The statistics since {from} UTC were counted again: {} clicks of {records} in {:.1} s; {before} \
                 clicks before.",
                grouped(clicks),
                self.seconds
            ),
        }
    }
}
