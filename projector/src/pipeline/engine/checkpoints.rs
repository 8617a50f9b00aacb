//! Loads the checkpoints of assigned shards, and compares remembered with stored checkpoints.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{event_store::log, metrics::CHECKPOINTS_LOST_TOTAL, shard::Shard};
use metrics::counter;
use tokio::time::Instant;

use super::{Engine, shard_assignment::ShardAssignment};
use crate::pipeline::{checkpoint, progress::Mode};

/// Interval of the comparison of remembered with stored checkpoints.
pub(super) const CHECKPOINTS_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Compares remembered with stored checkpoints, once per [`CHECKPOINTS_INTERVAL`], and at once
    /// after a transaction found moved checkpoints. The progress of a shard is forgotten
    /// if a checkpoint or its generation has changed, or a pause began or ended;
    /// [`Engine::load_checkpoints`] loads the checkpoints again.
    ///
    /// Checkpoints are committed with `synchronous_commit = off`. A crash of Postgres may therefore
    /// roll the latest commits back, and the new database session does not report the crash.
    pub(super) async fn check_checkpoints(&mut self) -> anyhow::Result<()> {
        if Instant::now() < self.checkpoints_due_at {
            return Ok(());
        }
        let shards: Vec<Shard> = self.assignments.keys().copied().collect();
        let rows = checkpoint::load_live(&self.databases.read, &shards)
            .await
            .context("cannot read the checkpoints")?;
        self.checkpoints_due_at = Instant::now() + CHECKPOINTS_INTERVAL;
        for (shard, assignment) in &mut self.assignments {
            assignment.record_parked_and_skipped(*shard, &rows);
        }
        for row in rows {
            let (shard, projection, stored) = (row.shard, row.projection, row.checkpoint);
            let Some(assignment) = self.assignments.get_mut(&shard) else {
                continue;
            };
            let Some(progress) = &assignment.progress else {
                continue;
            };
            let remembered = progress.checkpoint(projection);
            let was_paused = progress.mode(projection) == Mode::Paused;
            if (remembered, was_paused) == (stored, row.is_paused) {
                continue;
            }
            if remembered == stored {
                let is_paused = row.is_paused;
                tracing::info!(%shard, %projection, is_paused, "an operator changed the pause");
                assignment.forget_progress(0);
                continue;
            }
            if remembered.generation != stored.generation {
                let generation = stored.generation;
                tracing::info!(%shard, %projection, generation, "another generation is live");
                assignment.forget_progress(0);
                continue;
            }
            counter!(CHECKPOINTS_LOST_TOTAL, "shard" => shard.to_string()).increment(1);
            tracing::warn!(
                %shard,
                %projection,
                remembered = remembered.position,
                stored = stored.position,
                "the checkpoint has moved: reading it again"
            );
            // A crash moves a checkpoint back; a new owner of the shard moves a checkpoint forward.
            if assignment.may_be_taken_over && remembered.position < stored.position {
                self.assignments.remove(&shard);
            } else {
                assignment.forget_progress(0);
            }
        }
        Ok(())
    }

    /// Loads the checkpoints of the shards without remembered checkpoints.
    pub(super) async fn load_checkpoints(&mut self) -> anyhow::Result<()> {
        let needs_checkpoints = |(shard, assignment): (&Shard, &ShardAssignment)| {
            assignment.needs_checkpoints().then_some(*shard)
        };
        let shards: Vec<Shard> = self
            .assignments
            .iter()
            .filter_map(needs_checkpoints)
            .collect();
        if shards.is_empty() {
            return Ok(());
        }
        // Checkpoints are read before the heads: no checkpoint in `rows` is then beyond its head,
        // unless the log has lost events.
        let rows = checkpoint::load_live(&self.databases.read, &shards)
            .await
            .context("cannot read the checkpoints")?;
        let end = log::end(&self.databases.log)
            .await
            .context("cannot read the heads of the log")?;
        for shard in shards {
            if let Some(assignment) = self.assignments.get_mut(&shard) {
                assignment.begin(shard, &end, &rows)?;
            }
        }
        Ok(())
    }
}
