//! Refusal of a shard whose checkpoints do not belong to the log, because the log was restored from
//! a backup, or whose next event cannot be read.
//!
//! An operator has to repair the shard, and a restart does not help. The process therefore keeps
//! running, applies the other shards, and checks the refused shard again every second. A checkpoint beyond the end
//! of the log stays refused while the log grows: the lost events stay applied. Only a restart forgets the end.

use std::time::Duration;

use linkledger_core::{
    event_store::log,
    log_identity::{self, OtherLog},
    metrics::PROJECTION_REFUSED,
    projection::Projection,
    shard::{Position, Shard},
};
use metrics::gauge;
use tokio::time::Instant;

use super::shard_assignment::ShardAssignment;
use crate::pipeline::checkpoint::{Checkpoint, LiveCheckpoint};

/// Interval at which a refused shard is checked again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Reason for which a shard is not applied; the message names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ShardRefusal {
    #[error(transparent)]
    OtherLog(#[from] OtherLog),
    #[error(
        "`{projection}` is of epoch {epoch} in shard {shard}, and the log is of epoch {log_epoch}: \
         rebuild the read tables from the log: `projector rebuild --all`"
    )]
    OtherEpoch {
        projection: Projection,
        shard: Shard,
        epoch: i32,
        log_epoch: i32,
    },
    #[error(
        "`{projection}` is at position {} of shard {shard}, which ends at {head}: the log \
         has lost events. Give it another epoch, `command-api log epoch raise --reason …`, then \
         rebuild the read tables, `projector rebuild --all` (docs/operations.md, \"The log was \
         restored\")", checkpoint.position
    )]
    BeyondHead {
        projection: Projection,
        shard: Shard,
        checkpoint: Checkpoint,
        head: Position,
    },
    #[error("{description}")]
    Unreadable {
        after: Position,
        /// Text of [`unreadable_event`].
        description: String,
    },
}

/// Describes an event that cannot be read, with the remedy.
pub(super) fn unreadable_event(shard: Shard, after: Position, error: &sqlx::Error) -> String {
    format!(
        "the event after position {after} of shard {shard} cannot be read: the log is damaged, run \
         `command-api log verify`: {error}"
    )
}

impl ShardRefusal {
    /// Returns a refusal if the checkpoint is of another log or epoch, or beyond the head of the shard.
    pub(super) fn of(row: &LiveCheckpoint, end: &log::LogEnd) -> Option<Self> {
        let (projection, shard) = (row.projection, row.shard);
        let epoch = row.checkpoint.epoch;
        let (log_epoch, head) = (end.epoch, end.heads[shard.index()]);
        if let Err(other) = log_identity::compare(end.log_id, row.log_id) {
            return Some(other.into());
        }
        if epoch != log_epoch {
            return Some(Self::OtherEpoch {
                projection,
                shard,
                epoch,
                log_epoch,
            });
        }
        Self::if_beyond_head((projection, row.checkpoint), (shard, head))
    }

    /// Returns a refusal if the checkpoint of a projection is beyond the head of the shard.
    pub(crate) fn if_beyond_head(
        (projection, checkpoint): (Projection, Checkpoint),
        (shard, head): (Shard, Position),
    ) -> Option<Self> {
        (checkpoint.position > head).then_some(Self::BeyondHead {
            projection,
            shard,
            checkpoint,
            head,
        })
    }

    /// Returns true if the checkpoints do not belong to the log; otherwise the log is damaged.
    fn is_of_checkpoints(&self) -> bool {
        !matches!(self, Self::Unreadable { .. })
    }

    /// Returns true if the checkpoint was beyond the head: the events that the log has lost stay applied, even if the
    /// log has grown beyond the checkpoint since.
    fn still_holds(&self, row: &LiveCheckpoint) -> bool {
        matches!(self, Self::BeyondHead { projection, checkpoint, .. }
            if (*projection, *checkpoint) == (row.projection, row.checkpoint))
    }
}

/// A refused shard, and the time of the next check.
#[derive(Debug)]
pub(super) struct RefusedShard {
    refusal: ShardRefusal,
    since: Instant,
    recheck_at: Instant,
    /// True once the refusal is in a report for operators.
    is_reported: bool,
}

impl ShardAssignment {
    /// Refuses the shard until an operator has repaired the read tables or the log.
    pub(super) fn refuse(&mut self, shard: Shard, refusal: ShardRefusal) {
        self.forget_progress(0);
        report_refused(shard, refusal.is_of_checkpoints());
        let now = Instant::now();
        let recheck_at = now + RECHECK_INTERVAL;
        match &mut self.refused {
            Some(refused) if refused.refusal == refusal => refused.recheck_at = recheck_at,
            refused => {
                tracing::error!(%shard, error = %refusal, "the shard is not applied until repaired");
                *refused = Some(RefusedShard {
                    refusal,
                    since: now,
                    recheck_at,
                    is_reported: false,
                });
            }
        }
    }

    /// Returns the refusal of the shard once, for a report to operators.
    pub(super) fn unreported_refusal(&mut self) -> Option<ShardRefusal> {
        let refused = self
            .refused
            .as_mut()
            .filter(|refused| !refused.is_reported)?;
        refused.is_reported = true;
        Some(refused.refusal.clone())
    }

    /// Returns for how long the next event of the shard has been unreadable.
    pub(super) fn unreadable_for(&self) -> Option<Duration> {
        let refused = self.refused.as_ref();
        let unreadable = refused.filter(|refused| !refused.refusal.is_of_checkpoints());
        unreadable.map(|refused| refused.since.elapsed())
    }

    /// Returns the refusal of the shard if the checkpoint is the one that was refused as beyond the head.
    pub(super) fn unrepaired(&self, row: &LiveCheckpoint) -> Option<ShardRefusal> {
        let refused = self.refused.as_ref()?;
        let holds = refused.refusal.still_holds(row);
        holds.then(|| refused.refusal.clone())
    }

    /// Ends the refusal of the checkpoints, if there is one: the checkpoints belong to the log.
    pub(super) fn end_refusal_of_checkpoints(&mut self, shard: Shard) {
        report_refused(shard, false);
        if self
            .refused
            .take_if(|refused| refused.refusal.is_of_checkpoints())
            .is_some()
        {
            tracing::info!(%shard, "the shard is repaired and applied again");
        }
    }

    /// Ends the refusal of an unreadable event, if there is one, after the events up to `last`, or all events of
    /// the shard, were read.
    pub(super) fn end_refusal_if_read(&mut self, shard: Shard, last: Option<Position>) {
        let is_read = |refused: &mut RefusedShard| {
            matches!(&refused.refusal, ShardRefusal::Unreadable { after, .. }
                if last.is_none_or(|last| last > *after))
        };
        if self.refused.take_if(is_read).is_some() {
            tracing::info!(%shard, "the log is repaired, and the shard is applied again");
        }
    }

    /// Returns true if the checkpoints are to be read: none are remembered, and the next check of a
    /// refused shard is due.
    pub(super) fn needs_checkpoints(&self) -> bool {
        let is_due = |refused: &RefusedShard| Instant::now() >= refused.recheck_at;
        self.progress.is_none() && self.refused.as_ref().is_none_or(is_due)
    }
}

pub(super) fn report_refused(shard: Shard, is_refused: bool) {
    gauge!(PROJECTION_REFUSED, "shard" => shard.to_string()).set(f64::from(u8::from(is_refused)));
}
