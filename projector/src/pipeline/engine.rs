//! Applies events to the read models, cycle by cycle, for the shards that this process is assigned.
//!
//! A cycle takes the events delivered by the topic, and reads missing events from the event store.
//! The engine has no Kafka client. A remembered checkpoint may be stale: every transaction compares
//! the remembered checkpoint with the stored one.

mod admission;
mod backfill;
mod checkpoints;
mod lag;
mod parked;
mod shard_assignment;
pub(crate) mod shard_refusal;
mod without_group;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use linkledger_core::{
    cloud_event::PublishedEvent,
    databases::Databases,
    envelope::RecordedEvent,
    event_store::{log::PerShard, time_limit::within},
    metrics::PROJECTION_APPLY_SECONDS,
    shard::{Position, Shard},
};
use metrics::histogram;
use tokio::time::Instant;
use uuid::Uuid;

pub use self::lag::LAG_INTERVAL;
use self::{checkpoints::CHECKPOINTS_INTERVAL, shard_assignment::ShardAssignment};
use crate::pipeline::{
    apply::{self, ApplyConflict, ApplySummary, ApplyTarget, ShardBatch},
    decode::BatchEvent,
    heartbeat::AssignmentReport,
    progress::ShardProgress,
    retry,
};

/// Timeout of a cycle, in minutes. A cycle is a few short statements: only a broken connection
/// takes longer.
const CYCLE_TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum number of events of one transaction, which then takes far less than a second.
pub const CYCLE_EVENTS_MAX: usize = 4_000;

/// Fewest events for which a cycle uses two parallel transactions.
const PARALLEL_EVENTS_MIN: usize = 2_000;

/// Result of one transaction.
type ApplyResult = sqlx::Result<Result<ApplySummary, ApplyConflict>>;

/// Applies events to the read models.
pub struct Engine {
    databases: Databases,
    assignments: BTreeMap<Shard, ShardAssignment>,
    /// Shards that another process, or none, serves: their checkpoints at the last look.
    unassigned_floors: BTreeMap<Shard, Position>,
    lag_checked_at: Option<Instant>,
    /// Identity of the log at the last measurement of the lag.
    log_id: Option<Uuid>,
    ages_read_at: Option<Instant>,
    checkpoints_due_at: Instant,
}

impl Engine {
    /// Returns an engine without assigned shards.
    pub fn new(databases: Databases) -> Self {
        Self {
            databases,
            assignments: BTreeMap::new(),
            unassigned_floors: BTreeMap::new(),
            lag_checked_at: None,
            log_id: None,
            ages_read_at: None,
            checkpoints_due_at: Instant::now() + CHECKPOINTS_INTERVAL,
        }
    }

    /// Adds shards that the consumer group has assigned to this process.
    pub fn assign(&mut self, shards: &[Shard]) {
        // The group answers again. A shard that the group did not assign again belongs to another
        // process.
        self.assignments
            .retain(|_, assignment| !assignment.may_be_taken_over);
        let added = shards.iter().map(|shard| (*shard, ShardAssignment::new()));
        self.assignments.extend(added);
    }

    /// Removes shards that the consumer group has revoked.
    pub fn revoke(&mut self, shards: &[Shard]) {
        for shard in shards {
            self.assignments.remove(shard);
        }
    }

    /// Keeps shards whose assignment was lost because the consumer group did not answer.
    ///
    /// A broker outage must not stop the projections: the shards are served from the event store
    /// until another process advances a checkpoint of the shard.
    pub fn keep_until_taken_over(&mut self, shards: &[Shard]) {
        for shard in shards {
            if let Some(assignment) = self.assignments.get_mut(shard) {
                assignment.may_be_taken_over = true;
            }
        }
    }

    /// Returns true if the next cycle has work without a new delivery: a backfill, a catch-up,
    /// unread checkpoints, or a due release.
    pub fn has_work(&self) -> bool {
        self.assignments.values().any(|assignment| {
            let progress = assignment.progress.as_ref();
            let has_backlog = progress.is_some_and(|progress| {
                progress.needs_backfill() || assignment.catching_up().is_some()
            });
            has_backlog || assignment.needs_checkpoints() || assignment.is_release_due()
        })
    }

    /// Returns a report on each assigned shard, for the heartbeat.
    pub fn reports(&self) -> Vec<AssignmentReport> {
        let assignments = self.assignments.iter();
        assignments
            .map(|(shard, assignment)| assignment.report(*shard))
            .collect()
    }

    /// Returns a refusal of a shard that was not returned before.
    pub fn unreported_refusal(&mut self) -> Option<anyhow::Error> {
        let mut assignments = self.assignments.values_mut();
        let refusal = assignments.find_map(ShardAssignment::unreported_refusal)?;
        Some(refusal.into())
    }

    /// Runs one cycle: applies the next events of every assigned shard, in one transaction, or in
    /// two parallel transactions if there are many events.
    ///
    /// # Errors
    /// Returns an error if the database fails, or lacks a checkpoint or an event. The
    /// caller need not deliver the events again: the next cycle reads them from the event store.
    pub async fn cycle(&mut self, delivered: Vec<PublishedEvent>) -> anyhow::Result<()> {
        let mut by_shard: BTreeMap<Shard, Vec<PublishedEvent>> = BTreeMap::new();
        let mut delivered_until = PerShard::<Position>::default();
        for published in delivered {
            let (shard, position) = (published.event.shard, published.event.position);
            let highest = &mut delivered_until[shard.index()];
            *highest = position.max(*highest);
            by_shard.entry(shard).or_default().push(published);
        }
        let result = within(CYCLE_TIME_MAX, Box::pin(self.try_cycle(by_shard))).await;
        if result.is_err() {
            // The outcome of a COMMIT may be unknown: the checkpoints have to be read again.
            for (shard, assignment) in &mut self.assignments {
                assignment.forget_progress(delivered_until[shard.index()]);
            }
        }
        result
    }

    async fn try_cycle(
        &mut self,
        delivered: BTreeMap<Shard, Vec<PublishedEvent>>,
    ) -> anyhow::Result<()> {
        self.check_checkpoints().await?;
        self.load_checkpoints().await?;
        self.check_lag().await?;
        let mut admitted = self.admit_delivered(delivered).await?;
        self.drop_events_missing_from_log(&mut admitted).await?;
        self.admit_backfill(&mut admitted).await?;
        let decode = |(shard, events): (Shard, Vec<RecordedEvent>)| {
            let events = events.into_iter().map(BatchEvent::decode);
            (shard, events.collect())
        };
        let decoded = admitted.into_iter().map(decode).collect();
        let progress_of = |shard| self.assignments[&shard].progress.clone();
        let batches = self.batches(decoded, progress_of).await?;
        self.apply(batches).await?;
        let batches = self.catch_up_batches().await?;
        self.apply(batches).await?;
        self.release_next().await;
        Ok(())
    }

    /// Makes one batch per shard, with the parked accounts and the skipped events of the batch.
    async fn batches(
        &self,
        events: BTreeMap<Shard, Vec<BatchEvent>>,
        progress_of: impl Fn(Shard) -> Option<ShardProgress>,
    ) -> anyhow::Result<Vec<ShardBatch>> {
        let parked = self.parked_among(&events).await?;
        let skipped = self.skipped_among(&events).await?;
        let batches = events.into_iter().map(|(shard, events)| ShardBatch {
            progress: progress_of(shard).expect("events are admitted by the shard's progress"),
            events,
            parked: parked.clone(),
            skipped: skipped.clone(),
        });
        Ok(batches.collect())
    }

    /// Returns the progress of a shard; `None` if the shard is not assigned to this process, or if
    /// its checkpoints are not loaded.
    fn progress(&mut self, shard: Shard) -> Option<&mut ShardProgress> {
        self.assignments.get_mut(&shard)?.progress.as_mut()
    }

    /// Applies the batches. Many events are applied in two parallel transactions with different
    /// shards, so that two database sessions work during a catch-up.
    async fn apply(&mut self, batches: Vec<ShardBatch>) -> anyhow::Result<()> {
        let (first, second) = split_in_two(batches);
        let (first_result, second_result) =
            tokio::join!(self.try_apply(&first), self.try_apply(&second));
        let handled = self.handle_outcome(first, first_result).await;
        handled.and(self.handle_outcome(second, second_result).await)
    }

    async fn try_apply(&self, batches: &[ShardBatch]) -> ApplyResult {
        if batches.is_empty() {
            return Ok(Ok(ApplySummary::default()));
        }
        let started_at = Instant::now();
        let result = apply::apply(&self.databases.read, batches, ApplyTarget::LIVE).await?;
        if result.is_ok() {
            histogram!(PROJECTION_APPLY_SECONDS).record(started_at.elapsed());
        }
        Ok(result)
    }

    /// Handles the outcome of a transaction. After [`ApplyConflict::CheckpointMoved`], the batches
    /// of the other shards are retried at once, without the shards whose checkpoints have moved.
    async fn handle_outcome(
        &mut self,
        mut batches: Vec<ShardBatch>,
        mut result: ApplyResult,
    ) -> anyhow::Result<()> {
        while !batches.is_empty() {
            match result {
                Ok(Ok(summary)) => {
                    summary.report();
                    self.record_applied(&batches, &summary);
                    return Ok(());
                }
                Ok(Err(ApplyConflict::CheckpointMoved(shards))) => {
                    let (moved, unmoved): (Vec<ShardBatch>, Vec<ShardBatch>) = batches
                        .into_iter()
                        .partition(|batch| shards.contains(&batch.progress.shard()));
                    self.requeue(&moved);
                    batches = unmoved;
                    result = self.try_apply(&batches).await;
                }
                Ok(Err(
                    conflict @ (ApplyConflict::AccountReleased | ApplyConflict::ProjectionPaused),
                )) => {
                    tracing::debug!(
                        ?conflict,
                        "an operator changed the shard: reading the checkpoints again"
                    );
                    self.forget_progress(&batches);
                    return Ok(());
                }
                Err(error) if retry::is_refusal(&error) || retry::is_table_fault(&error) => {
                    tracing::debug!(%error, "the database refused a batch: isolating the cause");
                    apply::isolate(&self.databases.read, &batches, ApplyTarget::LIVE).await?;
                    self.forget_progress(&batches);
                    return Ok(());
                }
                Err(error) => return Err(error).context("cannot apply events"),
            }
        }
        Ok(())
    }

    /// Advances the remembered checkpoints after a commit.
    fn record_applied(&mut self, batches: &[ShardBatch], summary: &ApplySummary) {
        for batch in batches {
            if let Some(assignment) = self.assignments.get_mut(&batch.progress.shard()) {
                assignment.advance(&batch.progress, batch.end());
            }
        }
        for parking in &summary.parked {
            if let Some(assignment) = self.assignments.get_mut(&parking.account.shard) {
                assignment.has_parked = true;
            }
        }
    }

    /// Forgets the remembered checkpoints of the batches, which were applied in part or not at all:
    /// the next cycle reads the checkpoints again, and the missing events from the event store.
    fn forget_progress(&mut self, batches: &[ShardBatch]) {
        for batch in batches {
            if let Some(assignment) = self.assignments.get_mut(&batch.progress.shard()) {
                assignment.forget_progress(batch.end());
            }
        }
    }

    /// Requeues batches whose checkpoints have moved: their events are read from the event store
    /// later. The next cycle reads the checkpoints first, which show whether another process has
    /// taken the shards over.
    fn requeue(&mut self, moved: &[ShardBatch]) {
        for batch in moved {
            if let Some(progress) = self.progress(batch.progress.shard()) {
                progress.extend_backfill(batch.end());
            }
        }
        self.checkpoints_due_at = Instant::now();
    }
}

/// Splits the batches into two parts with about the same number of events. The second part is empty
/// if there are fewer than [`PARALLEL_EVENTS_MIN`] events.
fn split_in_two(batches: Vec<ShardBatch>) -> (Vec<ShardBatch>, Vec<ShardBatch>) {
    let events: usize = batches.iter().map(|batch| batch.events.len()).sum();
    if events < PARALLEL_EVENTS_MIN {
        return (batches, Vec::new());
    }
    let mut events_of_first = 0;
    batches.into_iter().partition(|batch| {
        let is_first = events_of_first < events / 2;
        if is_first {
            events_of_first += batch.events.len();
        }
        is_first
    })
}
