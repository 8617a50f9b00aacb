//! Loading: applies events of the log to generations that are not served, chunk by chunk. A chunk is
//! one transaction, which moves the checkpoints too, so that a load can be interrupted at any moment.
//!
//! Rows are written with the indexes in place (`docs/adr/0009-rebuild-by-the-ordinary-path.md`).

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc};

use anyhow::{Context as _, ensure};
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::log::{
    PerShard,
    stored::{PositionRange, read_stored},
};
use linkledger_service::{databases::Databases, fail_point};
use sqlx::PgPool;
use tokio::task::JoinSet;

use super::{GenerationBuild, pace::RebuildPace};
use crate::{
    pipeline::{
        apply::{ShardBatch, apply, isolate},
        checkpoint::Checkpoint,
        decode::BatchEvent,
        parking::table::parked_among,
        retry::{self, Retries},
    },
    progress::ProgressReport,
    read_models::{Projection, skipped::Skipped},
};

/// Shards that are read at once: more would slow down the services.
pub const SHARDS_AT_ONCE: usize = 2;

/// Loads events into generations.
#[derive(Debug, Clone)]
pub struct Loader {
    pub(super) databases: Databases,
    pub(super) pace: Arc<RebuildPace>,
    pub(super) progress: Arc<ProgressReport>,
}

impl Loader {
    /// Returns a loader of that many events per second; `None` for no limit.
    pub fn new(
        databases: &Databases,
        max_rate: Option<NonZeroU32>,
        progress: Arc<ProgressReport>,
    ) -> Self {
        Self {
            databases: databases.clone(),
            pace: Arc::new(RebuildPace::new(max_rate)),
            progress,
        }
    }

    /// Loads all events between these positions into all builds, which have the same role.
    ///
    /// # Errors
    /// Returns an error if the log lacks an event, if another command has changed a build, or if the
    /// database fails for long.
    pub async fn load(
        &self,
        builds: &[GenerationBuild],
        from: &PerShard<Position>,
        to: &PerShard<Position>,
    ) -> anyhow::Result<()> {
        let lag = |shard: &Shard| to[shard.index()] - from[shard.index()];
        let mut shards: Vec<Shard> = Shard::all().filter(|shard| lag(shard) > 0).collect();
        // The longest shard first: the sessions finish at about the same time.
        shards.sort_by_key(|shard| -lag(shard));
        let mut waiting = shards.into_iter();
        // A task for each shard: the shards are decoded in parallel.
        let mut loads = JoinSet::new();
        loop {
            while loads.len() < SHARDS_AT_ONCE
                && let Some(shard) = waiting.next()
            {
                let load = ShardLoad {
                    loader: self.clone(),
                    builds: builds.to_vec(),
                    shard,
                    retries: Retries::default(),
                };
                loads.spawn(load.run(to[shard.index()]));
            }
            let Some(ended) = loads.join_next().await else {
                return Ok(());
            };
            ended.context("the load of a shard has panicked")??;
        }
    }
}

/// Load of one shard.
struct ShardLoad {
    loader: Loader,
    builds: Vec<GenerationBuild>,
    shard: Shard,
    retries: Retries,
}

/// Positions of the builds in the shard.
struct LoadingState {
    checkpoints: Vec<(Projection, Checkpoint)>,
    has_parked: bool,
}

impl LoadingState {
    /// Returns the position up to which all builds have all events.
    fn floor(&self) -> Position {
        let positions = self.checkpoints.iter().map(|(_, it)| it.position);
        positions.min().expect("there is a build")
    }
}

impl ShardLoad {
    async fn run(mut self, target: Position) -> anyhow::Result<()> {
        let shard = self.shard;
        loop {
            match self.attempt(target).await {
                Ok(true) => return Ok(()),
                Ok(false) => ensure!(
                    self.retries.wait().await,
                    "shard {shard}: another process moves the checkpoints; is another rebuild \
                     running?"
                ),
                Err(error) => {
                    let retried = self.retries.wait_after(error).await;
                    retried.with_context(|| format!("shard {shard}"))?;
                }
            }
        }
    }

    /// Loads chunk by chunk. Returns false if a checkpoint was moved by another process.
    async fn attempt(&mut self, target: Position) -> anyhow::Result<bool> {
        let role = self.builds[0].role;
        let mut standing = self.standing().await?;
        while standing.floor() < target {
            let batch = self.next_batch(&standing, target).await?;
            let (events, end) = (batch.events.len() as u64, batch.end());
            match apply(
                &self.loader.databases.read,
                std::slice::from_ref(&batch),
                role,
            )
            .await
            {
                Ok(Ok(parked)) => {
                    standing.has_parked |= !parked.is_empty();
                    for (_, checkpoint) in &mut standing.checkpoints {
                        checkpoint.position = checkpoint.position.max(end);
                    }
                }
                Ok(Err(_conflict)) => return Ok(false),
                Err(error) if retry::is_refusal(&error) => {
                    isolate(&self.loader.databases.read, &[batch], role).await?;
                    standing = self.standing().await?;
                }
                Err(error) => return Err(error).context("cannot apply events"),
            }
            self.loader.progress.advance(events);
            self.retries.reset();
            fail_point::reached("rebuild.chunk");
        }
        Ok(true)
    }

    async fn standing(&self) -> anyhow::Result<LoadingState> {
        let mut checkpoints = Vec::with_capacity(self.builds.len());
        let mut has_parked = false;
        for build in &self.builds {
            let standing = build.standing(&self.loader.databases.read).await?;
            let checkpoint = Checkpoint {
                generation: build.generation,
                epoch: standing.epoch,
                position: standing.positions[self.shard.index()],
            };
            checkpoints.push((build.projection, checkpoint));
            has_parked |= standing.has_parked[self.shard.index()];
        }
        Ok(LoadingState {
            checkpoints,
            has_parked,
        })
    }

    /// Reads the next chunk of events.
    async fn next_batch(
        &self,
        standing: &LoadingState,
        target: Position,
    ) -> anyhow::Result<ShardBatch> {
        let Loader {
            databases, pace, ..
        } = &self.loader;
        let after = standing.floor();
        let up_to = target.min(after + pace.chunk_events());
        pace.take((up_to - after).unsigned_abs()).await;
        let events = read(&databases.log, self.shard, after, up_to).await?;
        let parked = if standing.has_parked {
            parked_among(&databases.read, events.iter().map(AsRef::as_ref))
                .await
                .context("cannot read which accounts are parked")?
        } else {
            BTreeSet::new()
        };
        let skipped = Skipped::within(&databases.read, &[(self.shard, after + 1..=up_to)])
            .await
            .context("cannot read which events are skipped")?;
        Ok(ShardBatch {
            shard: self.shard,
            checkpoints: standing.checkpoints.clone(),
            skipped,
            events,
            parked,
        })
    }
}

/// Reads all events of a stretch of the log. Each chunk of a rebuild begins at the checkpoint, so a
/// generation cannot skip an event.
///
/// # Errors
/// Returns an error if an event is missing, or if the database fails.
async fn read(
    pool: &PgPool,
    shard: Shard,
    after: Position,
    up_to: Position,
) -> anyhow::Result<Vec<Arc<BatchEvent>>> {
    let stretch = PositionRange {
        shard,
        after,
        up_to,
    };
    let stored = read_stored(pool, stretch).await;
    let stored = stored.context("cannot read the event store")?;
    let mut events = Vec::with_capacity(usize::try_from(up_to - after)?);
    let mut next = after + 1;
    for event in stored.iter() {
        let event = event.context("cannot read the event store")?;
        let position = event.position;
        ensure!(
            position == next,
            "the event store lacks the event at position {next} of shard {shard}"
        );
        next += 1;
        events.push(Arc::new(BatchEvent::decode(event.to_recorded(shard))));
    }
    ensure!(
        next == up_to + 1,
        "the event store lacks the event at position {next} of shard {shard}"
    );
    Ok(events)
}
