//! Refusal of a follower whose checkpoint does not belong to the log, because the log was restored from a backup, or
//! whose next event cannot be read.
//!
//! An operator has to repair the read tables or the log, and a restart does not help. The process therefore keeps
//! running, lets the other followers go on, and checks the refused one again every second. A checkpoint whose event the
//! log has lost stays refused while the log grows: the lost events stay applied. Only a
//! restart forgets them, or another process that claims the shard.

use std::time::Duration;

use linkledger_core::{
    projection::Projection,
    shard::{Position, Shard},
};
use linkledger_event_store::log;
use linkledger_service::{
    log_identity::{self, OtherLog},
    metrics::{PROJECTION_REFUSED, RECORDS_FOREIGN_TOTAL},
};
use metrics::{counter, gauge};
use tokio::time::Instant;

use super::follower::Follower;
use crate::pipeline::checkpoint::{Checkpoint, LiveCheckpoint};

/// Interval at which a refused follower is checked again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Reason for which a follower applies no events; the message names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
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
        "`{projection}` is at position {} of shard {shard}, {found}: the log has lost events. Give it \
         another epoch, `command-api log epoch raise --reason …`, then rebuild the read tables, `projector \
         rebuild --all` (docs/operations.md, \"The log was restored\")", checkpoint.position
    )]
    LostEvents {
        projection: Projection,
        shard: Shard,
        checkpoint: Checkpoint,
        /// Content of the log at the position, in words.
        found: String,
    },
    #[error(
        "the event after position {after} of shard {shard} cannot be read: the log is damaged, run \
         `command-api log verify`: {error}"
    )]
    Unreadable {
        shard: Shard,
        after: Position,
        /// Text of the error.
        error: String,
    },
}

impl Refusal {
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
        Self::if_beyond_head((projection, shard), row.checkpoint, head)
    }

    /// Returns a refusal if the checkpoint of a projection is beyond the head of the shard.
    pub(crate) fn if_beyond_head(
        (projection, shard): (Projection, Shard),
        checkpoint: Checkpoint,
        head: Position,
    ) -> Option<Self> {
        (checkpoint.position > head).then(|| Self::LostEvents {
            projection,
            shard,
            checkpoint,
            found: format!("which ends at {head}"),
        })
    }

    /// Returns true if the checkpoint does not belong to the log; otherwise the log is damaged.
    fn is_of_checkpoint(&self) -> bool {
        !matches!(self, Self::Unreadable { .. })
    }
}

/// A refusal, and the time of the next check.
#[derive(Debug)]
pub(super) struct Refused {
    refusal: Refusal,
    since: Instant,
    pub(super) recheck_at: Instant,
    /// True once the refusal is in a report for operators.
    is_reported: bool,
}

impl Follower {
    /// Refuses to apply events until an operator has repaired the read tables or the log.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.forget_checkpoint();
        self.last_applied = None;
        let now = Instant::now();
        let recheck_at = now + RECHECK_INTERVAL;
        match &mut self.refused {
            Some(refused) if refused.refusal == refusal => refused.recheck_at = recheck_at,
            refused => {
                let (shard, projection) = (self.shard, self.projection);
                tracing::error!(%shard, %projection, error = %refusal, "no event is applied until repaired");
                *refused = Some(Refused {
                    refusal,
                    since: now,
                    recheck_at,
                    is_reported: false,
                });
            }
        }
    }

    /// Returns the refusal once, for a report to operators.
    pub(super) fn unreported_refusal(&mut self) -> Option<Refusal> {
        let refused = self.refused.as_mut().filter(|it| !it.is_reported)?;
        refused.is_reported = true;
        Some(refused.refusal.clone())
    }

    /// Returns true if the checkpoint does not belong to the log.
    pub(super) fn is_checkpoint_refused(&self) -> bool {
        let refused = self.refused.as_ref();
        refused.is_some_and(|refused| refused.refusal.is_of_checkpoint())
    }

    /// Returns for how long the next event has been unreadable.
    pub(super) fn unreadable_for(&self) -> Option<Duration> {
        let refused = self.refused.as_ref();
        let unreadable = refused.filter(|refused| !refused.refusal.is_of_checkpoint());
        unreadable.map(|refused| refused.since.elapsed())
    }

    /// Returns the refusal if the log had lost the event of this checkpoint: it stays applied, even if the log has grown
    /// beyond the checkpoint since.
    pub(super) fn unrepaired(&self, row: &LiveCheckpoint) -> Option<Refusal> {
        let refusal = &self.refused.as_ref()?.refusal;
        let is_of_row = matches!(refusal, Refusal::LostEvents { checkpoint, .. }
            if *checkpoint == row.checkpoint);
        is_of_row.then(|| refusal.clone())
    }

    /// Ends the refusal of the checkpoint, if there is one: the checkpoint belongs to the log.
    pub(super) fn end_refusal_of_checkpoint(&mut self) {
        let is_of_checkpoint = |refused: &mut Refused| refused.refusal.is_of_checkpoint();
        if self.refused.take_if(is_of_checkpoint).is_some() {
            let (shard, projection) = (self.shard, self.projection);
            tracing::info!(%shard, %projection, "the checkpoint is repaired, and events are applied again");
        }
    }

    /// Ends the refusal of an unreadable event, if there is one, after the events up to `last`, or all events of the
    /// shard, were read.
    pub(super) fn end_refusal_if_read(&mut self, last: Option<Position>) {
        let is_read = |refused: &mut Refused| {
            matches!(&refused.refusal, Refusal::Unreadable { after, .. }
                if last.is_none_or(|last| last > *after))
        };
        if self.refused.take_if(is_read).is_some() {
            let (shard, projection) = (self.shard, self.projection);
            tracing::info!(%shard, %projection, "the log is repaired, and events are applied again");
        }
    }
}

pub(super) fn report_refused(shard: Shard, is_refused: bool) {
    gauge!(PROJECTION_REFUSED, "shard" => shard.to_string()).set(f64::from(u8::from(is_refused)));
}

/// Counts and logs a record that the log lacks. The relay refuses to publish to such a topic, and `relay status` names
/// the remedy.
pub(super) fn report_foreign(shard: Shard, record: &str) {
    counter!(RECORDS_FOREIGN_TOTAL, "shard" => shard.to_string()).increment(1);
    tracing::error!(
        %shard,
        error = record,
        "the topic has an event that the log lacks; reading the log instead (`command-api relay \
         status` names the remedy)"
    );
}
