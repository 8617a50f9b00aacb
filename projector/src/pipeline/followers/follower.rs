//! A follower: one projection in one shard.

use linkledger_core::{
    projection::Projection,
    shard::{Position, Shard},
};
use linkledger_event_store::log::{EventPlace, LogEnd};
use linkledger_service::metrics::{PARKED_ACCOUNTS, PROJECTION_PAUSED};
use metrics::gauge;
use tokio::time::Instant;

use super::refusal::{Refusal, Refused};
use crate::pipeline::checkpoint::{Checkpoint, LiveCheckpoint};

/// A projection in a shard that this process has claimed.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) projection: Projection,
    pub(super) shard: Shard,
    /// Remembered checkpoint; `None` before the first read, and after a possible move.
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) is_paused: bool,
    /// False if no account is parked.
    pub(super) has_parked: bool,
    /// False if no event above the checkpoint is skipped.
    pub(super) has_skipped: bool,
    /// Last event that this process has applied, and the checkpoint since then.
    pub(super) last_applied: Option<(EventPlace, Checkpoint)>,
    /// Reason for which no event is applied.
    pub(super) refused: Option<Refused>,
}

impl Follower {
    pub(super) fn new(projection: Projection, shard: Shard) -> Self {
        Self {
            projection,
            shard,
            checkpoint: None,
            is_paused: false,
            has_parked: false,
            has_skipped: false,
            last_applied: None,
            refused: None,
        }
    }

    /// Returns the checkpoint, if events are to be applied.
    pub(super) fn active(&self) -> Option<Checkpoint> {
        self.checkpoint.filter(|_| !self.is_paused)
    }

    /// Returns true if the checkpoint is to be read: none is remembered, and the next check of a refused follower is
    /// due.
    pub(super) fn needs_checkpoint(&self) -> bool {
        let is_due = |refused: &Refused| Instant::now() >= refused.recheck_at;
        self.checkpoint.is_none() && self.refused.as_ref().is_none_or(is_due)
    }

    /// Starts from the stored checkpoint, or refuses it if it does not belong to the log, whose end is `end`.
    pub(super) fn begin(&mut self, row: &LiveCheckpoint, end: &LogEnd) {
        let refusal = Refusal::of(row, end).or_else(|| self.unrepaired(row));
        if let Some(refusal) = refusal {
            return self.refuse(refusal);
        }
        self.checkpoint = Some(row.checkpoint);
        self.last_applied.take_if(|last| last.1 != row.checkpoint);
        self.end_refusal_of_checkpoint();
    }

    /// Records pause, parked accounts and skipped events.
    pub(super) fn record_row(&mut self, row: &LiveCheckpoint) {
        if self.is_paused != row.is_paused {
            let (shard, projection, is_paused) = (self.shard, self.projection, row.is_paused);
            let change = if is_paused { "paused" } else { "resumed" };
            tracing::info!(%shard, %projection, "the projection is {change}");
        }
        self.is_paused = row.is_paused;
        self.has_parked = row.parked_accounts > 0;
        self.has_skipped = row.has_skipped;
        self.set_gauge(PROJECTION_PAUSED, f64::from(u8::from(row.is_paused)));
        self.set_gauge(PARKED_ACCOUNTS, row.parked_accounts.into());
    }

    /// Advances the remembered checkpoint after a commit.
    pub(super) fn advance(&mut self, from: Checkpoint, to: EventPlace) {
        if self.checkpoint == Some(from) {
            let position = from.position.max(to.position);
            let checkpoint = Checkpoint { position, ..from };
            self.checkpoint = Some(checkpoint);
            self.last_applied = Some((to, checkpoint));
            self.end_refusal_if_read(Some(position));
        }
    }

    /// Forgets the checkpoint, which may have moved.
    pub(super) fn forget_checkpoint(&mut self) {
        self.checkpoint = None;
    }

    /// Returns the position, if the checkpoint is remembered.
    pub(super) fn position(&self) -> Option<Position> {
        Some(self.checkpoint?.position)
    }

    /// Sets a gauge of this follower.
    pub(super) fn set_gauge(&self, name: &'static str, value: f64) {
        set_gauge(name, (self.projection, self.shard), value);
    }
}

/// Sets a gauge of a projection in a shard.
pub(super) fn set_gauge(name: &'static str, (projection, shard): (Projection, Shard), value: f64) {
    gauge!(name, "projection" => projection.name(), "shard" => shard.to_string()).set(value);
}
