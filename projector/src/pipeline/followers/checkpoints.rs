//! Reads the checkpoints of the followers, and compares remembered with stored ones.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::log;
use linkledger_service::metrics::CHECKPOINTS_LOST_TOTAL;
use metrics::counter;
use tokio::time::Instant;

use super::{Followers, follower::Follower, parked::ReleaseAttempt};
use crate::pipeline::checkpoint::{self, LiveCheckpoint};

/// Interval of the comparison of remembered with stored checkpoints.
pub(super) const CHECKPOINTS_INTERVAL: Duration = Duration::from_secs(1);

impl Followers {
    /// Reads the stored checkpoints, once per [`CHECKPOINTS_INTERVAL`], and at once for a follower that remembers none.
    /// A follower whose checkpoint is another one than it remembers begins there.
    ///
    /// Checkpoints are committed with `synchronous_commit = off`. A crash of Postgres may therefore
    /// roll the latest commits back, and the new database session does not report the crash.
    ///
    /// # Errors
    /// Returns an error if the database fails, or a projection has no live checkpoint in a shard.
    pub(super) async fn read_checkpoints(&mut self) -> anyhow::Result<()> {
        if Instant::now() < self.checkpoints_due_at && !self.needs_checkpoints() {
            return Ok(());
        }
        let shards: Vec<Shard> = self.shards.keys().copied().collect();
        // Checkpoints are read before the heads: no checkpoint in `rows` is then beyond its head,
        // unless the log has lost events.
        let rows = checkpoint::load_live(&self.databases.read, &shards)
            .await
            .context("cannot read the checkpoints")?;
        self.checkpoints_due_at = Instant::now() + CHECKPOINTS_INTERVAL;
        for claimed in self.shards.values_mut() {
            let mut is_lost = false;
            for follower in &mut claimed.followers {
                let row = row_of(follower, &rows)?;
                is_lost |= follower.forget_if_moved(row);
                follower.record_row(row);
            }
            if is_lost {
                let shard = claimed.shard.to_string();
                counter!(CHECKPOINTS_LOST_TOTAL, "shard" => shard).increment(1);
            }
        }
        if self.needs_checkpoints() {
            self.begin(&rows).await?;
        }
        Ok(())
    }

    pub(super) fn needs_checkpoints(&self) -> bool {
        self.followers().any(Follower::needs_checkpoint)
    }

    async fn begin(&mut self, rows: &[LiveCheckpoint]) -> anyhow::Result<()> {
        let end = log::end(&self.databases.log)
            .await
            .context("cannot read the heads of the log")?;
        for (shard, claimed) in &mut self.shards {
            for follower in &mut claimed.followers {
                if !follower.needs_checkpoint() {
                    continue;
                }
                follower.begin(row_of(follower, rows)?, &end);
                if follower.checkpoint.is_some() {
                    // A failed cycle is perhaps a restore of the log.
                    self.lag_due_at = Instant::now();
                    self.events_due_at = self.lag_due_at;
                    // What was published before this moment is perhaps never delivered.
                    let head: Position = end.heads[shard.index()];
                    claimed.read_until = claimed.read_until.max(head);
                    if follower.has_parked {
                        claimed.next_release = Some(ReleaseAttempt::after(None));
                    }
                }
            }
        }
        Ok(())
    }
}

fn row_of<'a>(
    follower: &Follower,
    rows: &'a [LiveCheckpoint],
) -> anyhow::Result<&'a LiveCheckpoint> {
    let (projection, shard) = (follower.projection, follower.shard);
    let is_own = |row: &&LiveCheckpoint| row.projection == projection && row.shard == shard;
    rows.iter()
        .find(is_own)
        .with_context(|| format!("`{projection}` has no live checkpoint in shard {shard}"))
}

impl Follower {
    /// Forgets a checkpoint that is no longer the stored one. Returns true if another process or a crash has moved it.
    fn forget_if_moved(&mut self, row: &LiveCheckpoint) -> bool {
        let (shard, projection, stored) = (self.shard, self.projection, row.checkpoint);
        let Some(remembered) = self.checkpoint.filter(|it| *it != stored) else {
            return false;
        };
        let is_lost = remembered.generation == stored.generation;
        if is_lost {
            // A crash has moved the checkpoint back, or another owner of the shard has moved it forward.
            tracing::warn!(
                %shard,
                %projection,
                remembered = remembered.position,
                stored = stored.position,
                "the checkpoint has moved: reading it again"
            );
        } else {
            let generation = stored.generation;
            tracing::info!(%shard, %projection, generation, "another generation is live");
        }
        self.forget_checkpoint();
        is_lost
    }
}
