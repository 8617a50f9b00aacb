//! State that the engine keeps of a shard while the shard is assigned to this process.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::log,
    metrics::{PARKED_ACCOUNTS, PROJECTION_PAUSED},
    projection::{PerProjection, Projection},
    shard::{Position, Shard},
};
use metrics::gauge;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{
    parked::ReleaseAttempt,
    shard_refusal::{RefusedShard, ShardRefusal},
};
use crate::pipeline::{
    checkpoint::LiveCheckpoint, heartbeat::AssignmentReport, progress::ShardProgress,
};

/// Delay of the projections that catch up, after their next event could not be read.
const CATCH_UP_RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// A shard that this process owns.
pub(super) struct ShardAssignment {
    /// Remembered checkpoints; `None` before the first read, and after a possible move.
    pub(super) progress: Option<ShardProgress>,
    /// Start of the assignment.
    pub(super) since: OffsetDateTime,
    /// True if the consumer group may have assigned the shard to another process.
    pub(super) may_be_taken_over: bool,
    /// Time of the last progress: an event was applied, or none was left.
    pub(super) progressed_at: Instant,
    /// False if no account of the shard is parked.
    pub(super) has_parked: bool,
    /// False if no event above the checkpoints is skipped.
    pub(super) has_skipped: bool,
    /// Next automatic release of a parked account; `None` once every parked account was tried.
    ///
    /// Every assignment begins with an attempt, because an upgraded program may decode an event
    /// that the previous release could not decode.
    pub(super) next_release: Option<ReleaseAttempt>,
    /// Position up to which events must be read from the event store once the checkpoints are read.
    backfill_until: Position,
    /// Reason for which the shard is not applied.
    pub(super) refused: Option<RefusedShard>,
    /// Time of the next read for the projections that catch up, after their next event could not be read.
    catch_up_at: Option<Instant>,
}

impl ShardAssignment {
    pub(super) fn new() -> Self {
        Self {
            progress: None,
            since: SystemClock.now(),
            may_be_taken_over: false,
            progressed_at: Instant::now(),
            has_parked: false,
            has_skipped: false,
            next_release: None,
            backfill_until: 0,
            refused: None,
            catch_up_at: None,
        }
    }

    /// Returns the report of the shard for the heartbeat.
    pub(super) fn report(&self, shard: Shard) -> AssignmentReport {
        let positions = self.progress.as_ref().map(|progress| {
            Projection::ALL.map(|projection| progress.checkpoint(projection).position)
        });
        AssignmentReport {
            shard,
            since: self.since,
            positions,
        }
    }

    /// Starts from the shard's checkpoints, which are among `rows`. Refuses the shard if one of
    /// the checkpoints does not belong to the log, whose epoch and heads are in `end`.
    ///
    /// # Errors
    /// Returns an error if a projection has no live checkpoint in the shard.
    pub(super) fn begin(
        &mut self,
        shard: Shard,
        end: &log::LogEnd,
        rows: &[LiveCheckpoint],
    ) -> anyhow::Result<()> {
        let mut checkpoints = Vec::with_capacity(Projection::ALL.len());
        let mut paused = PerProjection::default();
        for projection in Projection::ALL {
            let row = rows
                .iter()
                .find(|row| row.shard == shard && row.projection == projection)
                .with_context(|| {
                    format!("`{projection}` has no live checkpoint in shard {shard}")
                })?;
            let refusal = ShardRefusal::of(row, end).or_else(|| self.unrepaired(row));
            if let Some(refusal) = refusal {
                self.refuse(shard, refusal);
                return Ok(());
            }
            checkpoints.push(row.checkpoint);
            paused[projection.index()] = row.is_paused;
        }
        let checkpoints = checkpoints.try_into().expect("one for each projection");
        let backfill_until = std::mem::take(&mut self.backfill_until);
        let progress =
            ShardProgress::new(shard, end.epoch, checkpoints, backfill_until).with_paused(paused);
        self.progress = Some(progress);
        self.end_refusal_of_checkpoints(shard);
        self.record_parked_and_skipped(shard, rows);
        self.next_release = self.has_parked.then(|| ReleaseAttempt::after(None));
        // The idle time that triggers a catch-up begins now.
        self.progressed_at = Instant::now();
        Ok(())
    }

    /// Records from `rows` whether the shard has parked accounts and skipped events, and updates
    /// the gauges of parked accounts and paused projections.
    pub(super) fn record_parked_and_skipped(&mut self, shard: Shard, rows: &[LiveCheckpoint]) {
        (self.has_parked, self.has_skipped) = (false, false);
        for row in rows.iter().filter(|row| row.shard == shard) {
            self.has_parked |= row.parked_accounts > 0;
            self.has_skipped |= row.has_skipped;
            let is_paused = f64::from(u8::from(row.is_paused));
            set_gauge(PROJECTION_PAUSED, row.projection, shard, is_paused);
            let parked = row.parked_accounts.into();
            set_gauge(PARKED_ACCOUNTS, row.projection, shard, parked);
        }
    }

    /// Returns true if the next automatic release of a parked account is due.
    pub(super) fn is_release_due(&self) -> bool {
        let due = self
            .next_release
            .as_ref()
            .is_some_and(ReleaseAttempt::is_due);
        due && self.progress.is_some()
    }

    /// Returns the progress of the projections that catch up, if the next read for them is due.
    pub(super) fn catching_up(&self) -> Option<ShardProgress> {
        let is_due = self.catch_up_at.is_none_or(|at| at <= Instant::now());
        self.progress.as_ref().filter(|_| is_due)?.catching_up()
    }

    /// Delays the projections that catch up, because their next event cannot be read.
    pub(super) fn delay_catch_up(&mut self, error: &str) {
        self.catch_up_at = Some(Instant::now() + CATCH_UP_RETRY_INTERVAL);
        tracing::error!(
            error,
            "projections that catch up wait; retrying in a minute"
        );
    }

    /// Advances to `to` the remembered checkpoints of the projections that are live in `applied`.
    pub(super) fn advance(&mut self, applied: &ShardProgress, to: Position) {
        if let Some(progress) = &mut self.progress {
            let floor = progress.floor();
            progress.advance_like(applied, to);
            if progress.floor() > floor {
                self.progressed_at = Instant::now();
            }
        }
    }

    /// Forgets the checkpoints, which may have moved. Extends the backfill to `delivered_until`,
    /// because the topic does not deliver events up to `delivered_until` again.
    pub(super) fn forget_progress(&mut self, delivered_until: Position) {
        let backfill_until = self
            .progress
            .take()
            .map_or(0, |progress| progress.backfill_until());
        self.backfill_until = self.backfill_until.max(backfill_until).max(delivered_until);
    }
}

/// Sets the gauge of a projection in a shard.
pub(super) fn set_gauge(name: &'static str, projection: Projection, shard: Shard, value: f64) {
    gauge!(name, "projection" => projection.name(), "shard" => shard.to_string()).set(value);
}
