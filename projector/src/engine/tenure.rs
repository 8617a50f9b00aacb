//! What is remembered of a shard as long as this process looks after it.

use anyhow::{Context as _, ensure};
use linkledger_core::shard::{Position, Shard};
use tokio::time::Instant;

use crate::{checkpoint::Checkpoint, progress::Progress, projections::Projection};

pub(super) struct Tenure {
    /// `None` until the checkpoints have been read, and again when they may have moved.
    pub(super) progress: Option<Progress>,
    /// Whether the consumer group may have given the shard to somebody else.
    pub(super) is_contestable: bool,
    /// When an event was applied last, or there was none left to apply.
    pub(super) progressed_at: Instant,
    /// What has to be read from the event store once the checkpoints are known.
    owed: Position,
}

impl Tenure {
    pub(super) fn new() -> Self {
        Self {
            progress: None,
            is_contestable: false,
            progressed_at: Instant::now(),
            owed: 0,
        }
    }

    /// Starts from the shard's checkpoints, which are among `rows`.
    pub(super) fn begin(
        &mut self,
        shard: Shard,
        epoch: i32,
        rows: &[(Shard, Projection, Checkpoint)],
    ) -> anyhow::Result<()> {
        let mut checkpoints = Vec::with_capacity(Projection::ALL.len());
        for projection in Projection::ALL {
            let (.., checkpoint) = rows
                .iter()
                .find(|row| row.0 == shard && row.1 == projection)
                .with_context(|| {
                    format!("`{projection}` has no live checkpoint in shard {shard}")
                })?;
            ensure!(
                checkpoint.epoch == epoch,
                "`{projection}` is of log epoch {} in shard {shard}, the log is of epoch {epoch}: \
                 the projection has to be rebuilt",
                checkpoint.epoch
            );
            checkpoints.push(*checkpoint);
        }
        let checkpoints = checkpoints.try_into().expect("one for each projection");
        let owed = std::mem::take(&mut self.owed);
        self.progress = Some(Progress::new(shard, epoch, checkpoints, owed));
        // From here on a delivery could have been applied.
        self.progressed_at = Instant::now();
        Ok(())
    }

    /// Everything up to `to` has been applied.
    pub(super) fn advance(&mut self, to: Position) {
        if let Some(progress) = &mut self.progress {
            progress.advance(to);
        }
        self.progressed_at = Instant::now();
    }

    /// The checkpoints may have moved; what was delivered up to `seen` will not come again.
    pub(super) fn forget(&mut self, seen: Position) {
        let owed = self.progress.take().map_or(0, |progress| progress.owed());
        self.owed = self.owed.max(owed).max(seen);
    }
}
