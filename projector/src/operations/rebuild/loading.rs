//! Loading: applies events of the log to generations that are not served, chunk by chunk. A chunk is
//! one transaction, which moves the checkpoints too, so that a load can be interrupted at any moment.
//!
//! Rows are written with the indexes in place (`docs/adr/0009-rebuild-by-the-ordinary-path.md`).

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, ensure};
use linkledger_core::{
    event_store::log::PerShard,
    fail_point,
    shard::{Position, Shard},
};
use sqlx::PgPool;
use tokio::{task::JoinSet, time::sleep};
use uuid::Uuid;

use super::{
    GenerationBuild,
    pace::Pace,
    reading::{ShardReading, ShardReadings, read},
};
use crate::{
    operations::progress::ProgressSink,
    pipeline::{
        apply::{ApplyTarget, ShardBatch, apply, isolate},
        checkpoint::{Checkpoint, Role},
        parking::table::parked_among,
        progress::Progress,
        retry::{self, Backoff},
    },
    read_models::{Projection, skipped::Skipped},
};

/// Shards that are read at once: more would slow down the services.
pub const SHARDS_AT_ONCE: usize = 2;
/// Most transient failures of a shard in a row.
const FAILURES_MAX: u32 = 20;

/// Loads events into generations.
#[derive(Debug, Clone)]
pub struct Loader {
    pub(super) pool: PgPool,
    pub(super) pace: Arc<Pace>,
    pub(super) progress: Arc<dyn ProgressSink>,
}

impl Loader {
    /// Loads all events up to these positions into all builds, which have the same role, and counts
    /// the events read for each build.
    ///
    /// # Errors
    /// Returns an error if the log lacks an event, if another command has changed a build, or if the
    /// database does not answer for long.
    pub async fn load(
        &self,
        builds: &[GenerationBuild],
        readings: &mut [ShardReadings],
        targets: &PerShard<Position>,
    ) -> anyhow::Result<()> {
        let mut waiting: Vec<Shard> = Shard::all().collect();
        // The longest shard first: the sessions finish at about the same time.
        waiting.sort_by_key(|shard| {
            let read = readings.iter().map(|it| it[shard.index()].read_up_to);
            read.min().unwrap_or(0) - targets[shard.index()]
        });
        let mut waiting = waiting.into_iter();
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < SHARDS_AT_ONCE
                && let Some(shard) = waiting.next()
            {
                let load = ShardLoad {
                    loader: self.clone(),
                    builds: builds.to_vec(),
                    shard,
                    readings: readings.iter().map(|it| it[shard.index()]).collect(),
                };
                under_way.spawn(load.run(targets[shard.index()]));
            }
            let Some(ended) = under_way.join_next().await else {
                return Ok(());
            };
            let (shard, read) = ended.context("the work on a shard has panicked")??;
            for (readings, reading) in readings.iter_mut().zip(read) {
                readings[shard.index()] = reading;
            }
        }
    }
}

/// Load of one shard.
struct ShardLoad {
    loader: Loader,
    builds: Vec<GenerationBuild>,
    shard: Shard,
    /// Events read, for each build.
    readings: Vec<ShardReading>,
}

/// Positions of the builds in the shard.
struct ShardProgress {
    progress: Progress,
    has_parked: bool,
}

impl ShardProgress {
    /// Returns the position up to which all builds have all events.
    fn floor(&self) -> Position {
        let floor = self.progress.floor();
        floor.expect("there is a build, and builds are never paused")
    }
}

impl ShardLoad {
    async fn run(mut self, target: Position) -> anyhow::Result<(Shard, Vec<ShardReading>)> {
        let shard = self.shard;
        let mut backoff = Backoff::default();
        let mut failures = 0;
        loop {
            let before = self.readings.clone();
            let result = self.attempt(target).await;
            if self.readings != before {
                failures = 0;
                backoff.reset();
            }
            match result {
                Ok(true) => return Ok((shard, self.readings)),
                Err(error) if failures == FAILURES_MAX || !retry::passes_by_itself(&error) => {
                    return Err(error.context(format!("shard {shard}")));
                }
                // A checkpoint was moved, or the failure is transient: the checkpoints are read again.
                Ok(false) | Err(_) => {}
            }
            failures += 1;
            ensure!(
                failures <= FAILURES_MAX,
                "shard {shard}: another process moves the checkpoints; is another rebuild running?"
            );
            sleep(backoff.next_delay()).await;
        }
    }

    /// Loads chunk by chunk. Returns false if a checkpoint was moved by another process.
    async fn attempt(&mut self, target: Position) -> anyhow::Result<bool> {
        let mut standing = self.standing().await?;
        while standing.floor() < target {
            let run = self.next_run(&standing, target).await?;
            let events = run.events.len() as u64;
            let end = run.end();
            for reading in &mut self.readings {
                reading.note(&run.events);
            }
            let projections: Vec<Projection> = self.builds.iter().map(|it| it.projection).collect();
            let to = ApplyTarget {
                projections: &projections,
                role: self.role(),
            };
            match apply(&self.loader.pool, std::slice::from_ref(&run), to).await {
                Ok(Ok(summary)) => {
                    standing.has_parked |= !summary.parked.is_empty();
                    standing.progress.advance(end);
                    self.loader.progress.advance(events);
                }
                Ok(Err(_conflict)) => return Ok(false),
                Err(error) if retry::is_refusal(&error) => {
                    isolate(&self.loader.pool, &[run], to).await?;
                    self.loader.progress.advance(events);
                    standing = self.standing().await?;
                }
                Err(error) => return Err(error).context("cannot apply events"),
            }
            fail_point::reached("rebuild.chunk");
        }
        Ok(true)
    }

    fn role(&self) -> Role {
        self.builds[0].role
    }

    async fn standing(&self) -> anyhow::Result<ShardProgress> {
        let mut checkpoints = Vec::with_capacity(self.builds.len());
        let mut has_parked = false;
        for build in &self.builds {
            let standing = build.standing(&self.loader.pool).await?;
            let checkpoint = Checkpoint {
                generation: build.generation,
                epoch: standing.epoch,
                position: standing.positions[self.shard.index()],
            };
            checkpoints.push((build.projection, checkpoint));
            has_parked |= standing.has_parked[self.shard.index()];
        }
        Ok(ShardProgress {
            progress: Progress::of(self.shard, &checkpoints),
            has_parked,
        })
    }

    /// Reads the next chunk of events.
    async fn next_run(
        &self,
        standing: &ShardProgress,
        target: Position,
    ) -> anyhow::Result<ShardBatch> {
        let Loader { pool, pace, .. } = &self.loader;
        let after = standing.floor();
        let up_to = target.min(after + pace.chunk_events());
        pace.take((up_to - after).unsigned_abs()).await;
        let events = read(pool, self.shard, after, up_to).await?;
        let parked = if standing.has_parked {
            let accounts: BTreeSet<Uuid> = events
                .iter()
                .map(|event| event.recorded().account_id.uuid())
                .collect();
            let accounts: Vec<Uuid> = accounts.into_iter().collect();
            parked_among(pool, &accounts)
                .await
                .context("cannot read which accounts are parked")?
        } else {
            BTreeSet::new()
        };
        let skipped = Skipped::within(pool, &[(self.shard, after + 1..=up_to)])
            .await
            .context("cannot read which events are left out")?;
        Ok(ShardBatch {
            skipped,
            progress: standing.progress.clone(),
            events,
            parked,
        })
    }
}
