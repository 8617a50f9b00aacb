//! What is remembered of the checkpoints, and whether it is so still.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{event_store::log, metrics::CHECKPOINTS_LOST_TOTAL, shard::Shard};
use metrics::counter;
use tokio::time::Instant;

use super::{Engine, tenure::Tenure};
use crate::pipeline::{checkpoint, progress::Line};

/// How often the checkpoints are compared with what is remembered of them.
pub(super) const CHECKPOINTS_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Looks whether the checkpoints are what is remembered. A crash of Postgres takes the last
    /// moments of commits back that have not waited for the disk, and a session that is opened
    /// anew does not tell of it. At once when a transaction has met others.
    pub(super) async fn watch_checkpoints(&mut self) -> anyhow::Result<()> {
        if Instant::now() < self.checkpoints_due_at {
            return Ok(());
        }
        let shards: Vec<Shard> = self.tenures.keys().copied().collect();
        let rows = checkpoint::load_live(&self.pool, &shards)
            .await
            .context("can't read the checkpoints")?;
        self.checkpoints_due_at = Instant::now() + CHECKPOINTS_INTERVAL;
        for (shard, tenure) in &mut self.tenures {
            tenure.note_aside(*shard, &rows);
        }
        for row in rows {
            let (shard, projection, stored) = (row.shard, row.projection, row.checkpoint);
            let Some(tenure) = self.tenures.get_mut(&shard) else {
                continue;
            };
            let Some(progress) = &tenure.progress else {
                continue;
            };
            let remembered = progress.checkpoint(projection);
            let was_paused = progress.line(projection) == Line::Paused;
            if (remembered, was_paused) == (stored, row.is_paused) {
                continue;
            }
            if remembered == stored {
                let is_paused = row.is_paused;
                tracing::info!(%shard, %projection, is_paused, "an operator's decision");
                tenure.forget(0);
                continue;
            }
            if remembered.generation != stored.generation {
                let generation = stored.generation;
                tracing::info!(%shard, %projection, generation, "another generation is served");
                tenure.forget(0);
                continue;
            }
            counter!(CHECKPOINTS_LOST_TOTAL, "shard" => shard.to_string()).increment(1);
            tracing::warn!(%shard, %projection, "the checkpoint is not what it was");
            // A crash moves it back; forward it is moved by whoever has the shard now.
            if tenure.is_contestable && remembered.position < stored.position {
                self.tenures.remove(&shard);
            } else {
                tenure.forget(0);
            }
        }
        Ok(())
    }

    /// Reads the checkpoints of shards that this process has none in memory of.
    pub(super) async fn load_checkpoints(&mut self) -> anyhow::Result<()> {
        let unknown = |(shard, tenure): (&Shard, &Tenure)| tenure.is_unknown().then_some(*shard);
        let shards: Vec<Shard> = self.tenures.iter().filter_map(unknown).collect();
        if shards.is_empty() {
            return Ok(());
        }
        // The checkpoints first: whoever moves them does not move them beyond a later end.
        let rows = checkpoint::load_live(&self.pool, &shards)
            .await
            .context("can't read the checkpoints")?;
        let end = log::end(&self.pool).await;
        let end = end.context("can't read where the log ends")?;
        for shard in shards {
            if let Some(tenure) = self.tenures.get_mut(&shard) {
                tenure.begin(shard, &end, &rows)?;
            }
        }
        Ok(())
    }
}
