//! Why a shard is not applied although database and broker answer: its checkpoints are not of this
//! log, which was restored. An operator has to mend it, and a restart would not: the process stays,
//! the other shards go on, and this one is looked at again until it is mended.

use std::time::Duration;

use linkledger_core::{
    event_store::log,
    metrics::PROJECTION_REFUSED,
    shard::{Position, Shard},
};
use metrics::gauge;
use tokio::time::Instant;

use super::tenure::Tenure;
use crate::{
    pipeline::checkpoint::{Checkpoint, LiveCheckpoint},
    read_models::Projection,
};

/// How often a shard that was refused is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What an operator has to mend before the shard is applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "`{projection}` is of epoch {epoch} in shard {shard}, and the log is of epoch {log_epoch}: \
         rebuild the read tables from it: `projector rebuild --all`"
    )]
    OtherEpoch {
        projection: Projection,
        shard: Shard,
        epoch: i32,
        log_epoch: i32,
    },
    #[error(
        "`{projection}` is at position {position} of shard {shard}, which ends at {head}: the log \
         has lost events. Give it another epoch, `command-api log epoch raise --reason …`, then \
         rebuild the read tables, `projector rebuild --all` (docs/operations.md, \"The log was \
         restored\")"
    )]
    BeyondHead {
        projection: Projection,
        shard: Shard,
        position: Position,
        head: Position,
    },
}

impl Refusal {
    /// Why a checkpoint is not of the log that has that `end`, if so.
    pub(super) fn of(row: &LiveCheckpoint, end: &log::LogEnd) -> Option<Self> {
        let (projection, shard) = (row.projection, row.shard);
        let Checkpoint {
            epoch, position, ..
        } = row.checkpoint;
        let (log_epoch, head) = (end.epoch, end.heads[shard.index()]);
        if epoch != log_epoch {
            return Some(Self::OtherEpoch {
                projection,
                shard,
                epoch,
                log_epoch,
            });
        }
        Self::beyond((projection, position), (shard, head))
    }

    /// Why a position is not of the log of a shard that ends at `head`, if so.
    pub(crate) fn beyond(
        (projection, position): (Projection, Position),
        (shard, head): (Shard, Position),
    ) -> Option<Self> {
        (position > head).then_some(Self::BeyondHead {
            projection,
            shard,
            position,
            head,
        })
    }
}

/// A shard that is not applied, and when it is looked at again.
#[derive(Debug)]
pub(super) struct Refused {
    refusal: Refusal,
    again_at: Instant,
}

impl Tenure {
    /// The shard is not applied until that is mended.
    pub(super) fn refuse(&mut self, shard: Shard, refusal: Refusal) {
        self.forget(0);
        if self.refused.as_ref().map(|it| &it.refusal) != Some(&refusal) {
            tracing::error!(%shard, error = %refusal, "the shard is not applied until this is mended");
        }
        report_refused(shard, true);
        self.refused = Some(Refused {
            refusal,
            again_at: Instant::now() + LOOK_INTERVAL,
        });
    }

    /// The checkpoints are of this log.
    pub(super) fn accept(&mut self, shard: Shard) {
        report_refused(shard, false);
        if self.refused.take().is_some() {
            tracing::info!(%shard, "the shard is applied again: what was refused is mended");
        }
    }

    /// Whether the checkpoints are to be read.
    pub(super) fn is_unknown(&self) -> bool {
        let may_look = |it: &Refused| Instant::now() >= it.again_at;
        self.progress.is_none() && self.refused.as_ref().is_none_or(may_look)
    }
}

pub(super) fn report_refused(shard: Shard, is_refused: bool) {
    gauge!(PROJECTION_REFUSED, "shard" => shard.to_string()).set(f64::from(u8::from(is_refused)));
}
