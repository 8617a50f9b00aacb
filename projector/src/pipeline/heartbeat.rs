//! Table `read_model.tenures`: the report of this process on its shards, once a second.
//!
//! The report is for operators: no code decides by the report, and a failed report delays no event.

use std::{collections::BTreeMap, time::Duration};

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    lifecycle::host_name,
    projection::{PerProjection, Projection},
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};

/// Interval of the reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a report.
const REPORT_TIME_MAX: Duration = Duration::from_millis(500);
/// Maximum number of characters of a reported error.
const ERROR_LENGTH_MAX: usize = 500;

/// Report on a shard that this process owns.
#[derive(Debug, Clone, Copy)]
pub struct AssignmentReport {
    /// Shard of the report.
    pub shard: Shard,
    /// Start of the assignment.
    pub since: OffsetDateTime,
    /// Position of each projection; `None` while the checkpoints are not loaded.
    pub positions: Option<PerProjection<Position>>,
}

/// Returns the name by which an operator finds this process: host and process id.
pub fn process_name() -> String {
    format!("{}:{}", host_name(), std::process::id())
}

/// Writes the reports of this process.
pub struct Heartbeat {
    pool: PgPool,
    owner: String,
    reported_at: Option<Instant>,
    measured: BTreeMap<Shard, (Instant, PerProjection<Position>)>,
    /// Latest error that is not reported yet, with its time.
    error: Option<(String, OffsetDateTime)>,
}

impl Heartbeat {
    /// Returns the heartbeat of the process named `owner`.
    pub fn new(pool: PgPool, owner: String) -> Self {
        Self {
            pool,
            owner,
            reported_at: None,
            measured: BTreeMap::new(),
            error: None,
        }
    }

    /// Records an error for the next report.
    pub fn record_error(&mut self, error: &anyhow::Error) {
        let text: String = format!("{error:#}")
            .chars()
            .take(ERROR_LENGTH_MAX)
            .collect();
        self.error = Some((text, SystemClock.now()));
    }

    /// Writes the reports if the previous reports are older than `REPORT_INTERVAL`.
    pub async fn report_if_due(&mut self, reports: &[AssignmentReport]) {
        if self
            .reported_at
            .is_none_or(|at| at.elapsed() >= REPORT_INTERVAL)
        {
            self.report_with_timeout(reports).await;
        }
    }

    /// Writes the reports. A failure or a timeout is only logged.
    pub async fn report_with_timeout(&mut self, reports: &[AssignmentReport]) {
        match timeout(REPORT_TIME_MAX, self.report(reports)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "cannot write the report for operators"),
            Err(_) => tracing::debug!("the report for operators timed out"),
        }
    }

    /// Writes the reports.
    ///
    /// # Errors
    /// Returns an error if the database fails. The recorded error of the projector is then in the next report.
    pub async fn report(&mut self, reports: &[AssignmentReport]) -> sqlx::Result<()> {
        if reports.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        self.reported_at = Some(now);
        let mut rows = Columns::default();
        for report in reports {
            rows.push(report, self.rates(report, now));
        }
        self.measured
            .retain(|shard, _| reports.iter().any(|report| report.shard == *shard));
        self.write(&rows).await?;
        self.error = None;
        Ok(())
    }

    /// Returns the events per second since the previous report on the shard.
    #[expect(clippy::cast_precision_loss, reason = "a rate is a float")]
    fn rates(&mut self, report: &AssignmentReport, now: Instant) -> PerProjection<f64> {
        let Some(positions) = report.positions else {
            return PerProjection::default();
        };
        let before = self.measured.insert(report.shard, (now, positions));
        let Some((at, before)) = before else {
            return PerProjection::default();
        };
        let seconds = (now - at).as_secs_f64().max(f64::EPSILON);
        std::array::from_fn(|index| (positions[index] - before[index]).max(0) as f64 / seconds)
    }

    async fn write(&self, rows: &Columns) -> sqlx::Result<()> {
        let (error, error_at) = self
            .error
            .as_ref()
            .map(|(text, at)| (text.as_str(), *at))
            .unzip();
        // A frozen process that has lost the shard must not overwrite the row of the new owner.
        sqlx::query!(
            "
            INSERT INTO read_model.tenures AS t
                (projection, shard, owner, version, since, seen_at, events_per_second,
                 last_error, last_error_at)
            SELECT n.projection, n.shard, $5, $6, n.since, now(), n.rate, $7, $8
            FROM unnest($1::text[], $2::smallint[], $3::timestamptz[], $4::double precision[])
                AS n (projection, shard, since, rate)
            ORDER BY n.projection, n.shard
            ON CONFLICT (projection, shard) DO UPDATE
            SET owner = excluded.owner, version = excluded.version, since = excluded.since,
                seen_at = excluded.seen_at, events_per_second = excluded.events_per_second,
                last_error = coalesce(excluded.last_error, t.last_error),
                last_error_at = coalesce(excluded.last_error_at, t.last_error_at)
            WHERE t.owner = excluded.owner OR t.since <= excluded.since
               OR t.seen_at < now() - interval '5 seconds'
            ",
            &rows.projections as &[&str],
            &rows.shards,
            &rows.since,
            &rows.rates,
            self.owner,
            env!("CARGO_PKG_VERSION"),
            error,
            error_at
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

/// Rows as columns, for `unnest`.
#[derive(Default)]
struct Columns {
    projections: Vec<&'static str>,
    shards: Vec<i16>,
    since: Vec<OffsetDateTime>,
    rates: Vec<f64>,
}

impl Columns {
    fn push(&mut self, report: &AssignmentReport, rates: PerProjection<f64>) {
        for (projection, rate) in Projection::ALL.into_iter().zip(rates) {
            self.projections.push(projection.name());
            self.shards.push(report.shard.number());
            self.since.push(report.since);
            self.rates.push(rate);
        }
    }
}
