//! The loop of `projector run`: receives records, applies their events, commits the offsets.
//!
//! There is no batch timer: the next batch fills while a transaction commits.

use std::time::Duration;

use linkledger_core::internal_listener::Readiness;
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::pipeline::{
    consumer::{AssignmentChange, Consumer},
    engine::{CYCLE_EVENTS_MAX, Engine, LAG_INTERVAL},
    heartbeat::Heartbeat,
    retry::{self, Backoff},
};

/// Interval of the search for shards without progress while the consumer group does not answer, in
/// seconds. Twice the interval is longer than the session timeout of a group's member, 6 s.
const WITHOUT_GROUP_INTERVAL: Duration = Duration::from_secs(5);

/// The parts of the loop.
pub struct RunLoop {
    /// Source of the events.
    pub consumer: Consumer,
    /// Writer of the read models.
    pub engine: Engine,
    /// Report to operators.
    pub heartbeat: Heartbeat,
    /// Readiness of the process, set once partitions are assigned and their checkpoints are loaded.
    pub readiness: Readiness,
}

impl RunLoop {
    /// Runs until the shutdown, which waits for the current cycle.
    ///
    /// # Errors
    /// Returns the first error that a retry cannot remedy.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let result = self.run_until_shutdown(&shutdown).await;
        if let Err(error) = &result {
            self.heartbeat.record_error(error);
            let reports = self.engine.reports();
            self.heartbeat.report_with_timeout(&reports).await;
        }
        self.consumer.leave().await;
        result
    }

    async fn run_until_shutdown(&mut self, shutdown: &CancellationToken) -> anyhow::Result<()> {
        let mut lag_check = time::interval(LAG_INTERVAL);
        lag_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::default();
        let mut is_assigned = false;
        // Set while the group does not answer: the time of the next search for shards without progress.
        let mut without_group_at = Some(Instant::now() + WITHOUT_GROUP_INTERVAL);
        while !shutdown.is_cancelled() {
            let has_work = self.engine.has_work();
            let deadline = async {
                if has_work {
                    return;
                }
                tokio::select! {
                    _ = lag_check.tick() => {}
                    () = shutdown.cancelled() => {}
                }
            };
            let delivery = self.consumer.receive(CYCLE_EVENTS_MAX, deadline).await?;
            for change in delivery.assignment_changes {
                is_assigned = true;
                without_group_at = match change {
                    AssignmentChange::Assigned(_) => None,
                    AssignmentChange::Revoked(_) => without_group_at,
                    AssignmentChange::Lost(_) => Some(Instant::now() + WITHOUT_GROUP_INTERVAL),
                };
                handle_assignment_change(&mut self.engine, change);
            }
            if without_group_at.is_some_and(|at| at <= Instant::now()) {
                without_group_at = Some(Instant::now() + WITHOUT_GROUP_INTERVAL);
                match self.engine.assign_without_group().await {
                    Ok(()) => is_assigned = true,
                    Err(error) => tracing::warn!(
                        error = format!("{error:#}"),
                        "cannot look for shards without progress; retrying in 5 s"
                    ),
                }
            }
            match self.engine.cycle(delivery.events).await {
                Ok(()) => {
                    backoff.reset();
                    self.consumer.commit_offsets_if_due();
                    if is_assigned {
                        self.readiness.set_ready();
                    }
                }
                Err(error) if retry::passes_by_itself(&error) => {
                    let delay = backoff.next_delay();
                    tracing::warn!(
                        error = format!("{error:#}"),
                        ?delay,
                        "a cycle failed: retrying after the delay"
                    );
                    self.heartbeat.record_error(&error);
                    tokio::select! {
                        () = time::sleep(delay) => {}
                        () = shutdown.cancelled() => {}
                    }
                }
                Err(error) => return Err(error),
            }
            if let Some(refusal) = self.engine.unreported_refusal() {
                self.heartbeat.record_error(&refusal);
            }
            self.heartbeat.report_if_due(&self.engine.reports()).await;
        }
        Ok(())
    }
}

fn handle_assignment_change(engine: &mut Engine, change: AssignmentChange) {
    match change {
        AssignmentChange::Assigned(shards) => engine.assign(&shards),
        AssignmentChange::Revoked(shards) => engine.revoke(&shards),
        AssignmentChange::Lost(shards) => engine.keep_until_taken_over(&shards),
    }
}
