//! Measures the lag of each shard behind the head of the log, and starts a catch-up from the event
//! store when the topic does not help: after its tail was lost, while a broker is down, or when the
//! lag is too long.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::log::{self, ReadFrom},
    metrics::{
        CATCH_UPS_TOTAL, PARKED_ACCOUNTS, PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS,
        PROJECTION_PAUSED, PROJECTION_POSITION,
    },
    projection::Projection,
    shard::{Position, Shard},
};
use metrics::counter;
use tokio::time::Instant;

use super::{
    Engine,
    shard_assignment::{ShardAssignment, set_gauge},
    shard_refusal::{ShardRefusal, report_refused},
};

/// Shortest time between two measurements of the lag.
pub const LAG_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the age of the first event that is not applied yet is measured.
const AGES_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time without progress, below the head, before a catch-up starts.
const IDLE_MAX: Duration = Duration::from_millis(300);
/// Lag, in events, above which a catch-up starts: the event store is then faster than the topic.
const LAG_MAX: Position = 20_000;

impl Engine {
    /// Measures the lag of every shard, once per [`LAG_INTERVAL`].
    pub(super) async fn check_lag(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        if self
            .lag_checked_at
            .is_some_and(|at| now - at < LAG_INTERVAL)
        {
            return Ok(());
        }
        let end = log::end(&self.databases.log)
            .await
            .context("cannot read the heads of the log")?;
        self.lag_checked_at = Some(now);
        if self
            .log_id
            .replace(end.log_id)
            .is_some_and(|id| id != end.log_id)
        {
            // The address leads to another log now: it is compared when checkpoints are read again.
            for assignment in self.assignments.values_mut() {
                assignment.forget_progress(0);
            }
        }
        if self.ages_read_at.is_none_or(|at| now - at >= AGES_INTERVAL) {
            self.report_ages().await?;
            self.ages_read_at = Some(now);
        }
        for shard in Shard::all() {
            if let Some(assignment) = self.assignments.get_mut(&shard) {
                assignment.check_lag(shard, &end, now);
                continue;
            }
            // Another process reports the shard: gauges left from a former assignment must not
            // raise an alert.
            report_refused(shard, false);
            for projection in Projection::ALL {
                for name in [
                    PROJECTION_LAG_EVENTS,
                    PROJECTION_LAG_SECONDS,
                    PARKED_ACCOUNTS,
                    PROJECTION_PAUSED,
                ] {
                    set_gauge(name, projection, shard, 0.0);
                }
            }
        }
        Ok(())
    }

    /// Reports the age of the first event that each projection has not applied yet.
    async fn report_ages(&self) -> anyhow::Result<()> {
        let mut checkpoints = Vec::new();
        for (shard, assignment) in &self.assignments {
            let Some(progress) = &assignment.progress else {
                continue;
            };
            if assignment.unreadable_for().is_some() {
                // Nobody knows when the next event was recorded.
                continue;
            }
            checkpoints.extend(Projection::ALL.map(|projection| {
                let from = ReadFrom {
                    shard: *shard,
                    after: progress.checkpoint(projection).position,
                };
                (projection, from)
            }));
        }
        let starts: Vec<ReadFrom> = checkpoints.iter().map(|(_, from)| *from).collect();
        let recorded = log::recording_times_after(&self.databases.log, &starts)
            .await
            .context("cannot read when events were recorded")?;
        let now = SystemClock.now();
        for ((projection, from), recorded_at) in checkpoints.into_iter().zip(recorded) {
            let age = recorded_at.map_or(0.0, |at| (now - at).as_seconds_f64().max(0.0));
            set_gauge(PROJECTION_LAG_SECONDS, projection, from.shard, age);
        }
        Ok(())
    }
}

impl ShardAssignment {
    /// Reports the lag of the shard. Refuses the shard if a checkpoint is beyond the head, and
    /// starts a catch-up if the shard makes no progress or the lag exceeds [`LAG_MAX`].
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn check_lag(&mut self, shard: Shard, end: &log::LogEnd, now: Instant) {
        let Some(progress) = &mut self.progress else {
            if let Some(unreadable_for) = self.unreadable_for() {
                for projection in Projection::ALL {
                    set_gauge(
                        PROJECTION_LAG_SECONDS,
                        projection,
                        shard,
                        unreadable_for.as_secs_f64(),
                    );
                }
            }
            return;
        };
        if progress.epoch() != end.epoch {
            // The epoch of the log was raised after a restore.
            self.forget_progress(0);
            return;
        }
        let head = end.heads[shard.index()];
        let refusal = Projection::ALL.into_iter().find_map(|projection| {
            let checkpoint = progress.checkpoint(projection);
            ShardRefusal::if_beyond_head((projection, checkpoint), (shard, head))
        });
        if let Some(refusal) = refusal {
            self.refuse(shard, refusal);
            return;
        }
        for projection in Projection::ALL {
            let position = progress.checkpoint(projection).position;
            set_gauge(PROJECTION_POSITION, projection, shard, position as f64);
            set_gauge(
                PROJECTION_LAG_EVENTS,
                projection,
                shard,
                (head - position) as f64,
            );
        }
        let lag = progress.floor().map_or(0, |floor| head - floor);
        if lag == 0 {
            self.progressed_at = now;
        }
        let is_idle = now - self.progressed_at >= IDLE_MAX;
        if (is_idle || lag > LAG_MAX) && !progress.needs_backfill() {
            counter!(CATCH_UPS_TOTAL, "shard" => shard.to_string()).increment(1);
            tracing::debug!(%shard, lag, "catching up from the event store");
            progress.extend_backfill(head);
        }
    }
}
