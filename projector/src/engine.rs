//! Brings the read models up to date, cycle by cycle, for the shards that this process looks
//! after: from the events that were delivered, and from the event store where those don't reach.
//!
//! Knows nothing of Kafka. What it remembers of a shard is a guess that each transaction checks.

mod admission;
mod heads;
mod parked;
mod tenure;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::log::{self, PerShard},
    metrics::{CHECKPOINTS_LOST_TOTAL, PROJECTION_APPLY_SECONDS},
    shard::{Position, Shard},
};
use metrics::{counter, histogram};
use sqlx::PgPool;
use tokio::time::Instant;

pub use self::heads::HEADS_INTERVAL;
use self::tenure::Tenure;
use crate::{
    apply::{self, Effect, Outcome, Run},
    checkpoint, poison,
    progress::Progress,
    projections::Projection,
    retry,
};

/// How often the checkpoints are compared with what is remembered of them.
const CHECKPOINTS_INTERVAL: Duration = Duration::from_secs(1);
/// Most events of one transaction, so that it stays far below a second.
pub const CYCLE_EVENTS_MAX: usize = 4_000;

/// Applies events to the read models.
pub struct Engine {
    pool: PgPool,
    tenures: BTreeMap<Shard, Tenure>,
    heads_read_at: Option<Instant>,
    ages_read_at: Option<Instant>,
    checkpoints_read_at: Instant,
}

impl Engine {
    /// An engine that looks after no shard yet.
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            tenures: BTreeMap::new(),
            heads_read_at: None,
            ages_read_at: None,
            checkpoints_read_at: Instant::now(),
        }
    }

    /// The consumer group has assigned these shards to this process.
    pub fn assign(&mut self, shards: &[Shard]) {
        // The group can be reached again: what it doesn't name is somebody else's.
        self.tenures.retain(|_, tenure| !tenure.is_contestable);
        let fresh = shards.iter().map(|shard| (*shard, Tenure::new()));
        self.tenures.extend(fresh);
    }

    /// The consumer group has taken these shards away.
    pub fn revoke(&mut self, shards: &[Shard]) {
        for shard in shards {
            self.tenures.remove(shard);
        }
    }

    /// The consumer group can't be reached, and may have given these shards to somebody else. They
    /// are served from the event store until somebody else moves a checkpoint of theirs: a broker
    /// that is down must not stop the projections.
    pub fn keep_until_contested(&mut self, shards: &[Shard]) {
        for shard in shards {
            if let Some(tenure) = self.tenures.get_mut(shard) {
                tenure.is_contestable = true;
            }
        }
    }

    /// Whether there is something to do without waiting for a delivery.
    pub fn is_behind(&self) -> bool {
        self.tenures.values().any(|tenure| {
            let progress = tenure.progress.as_ref();
            progress.is_none_or(Progress::is_owed) || tenure.is_release_due()
        })
    }

    /// Applies what is next in line, in one transaction.
    ///
    /// # Errors
    /// When the database does not answer, or the log and the read models don't belong together.
    /// The delivered events need not come again: the next cycle reads them from the event store.
    pub async fn cycle(&mut self, delivered: Vec<PublishedEvent>) -> anyhow::Result<()> {
        let mut by_shard: BTreeMap<Shard, Vec<PublishedEvent>> = BTreeMap::new();
        let mut seen = PerShard::<Position>::default();
        for published in delivered {
            let (shard, position) = (published.event.shard, published.event.position);
            seen[shard.index()] = seen[shard.index()].max(position);
            by_shard.entry(shard).or_default().push(published);
        }
        let result = self.try_cycle(by_shard).await;
        if result.is_err() {
            // Also when the outcome of a COMMIT is unknown: the checkpoints know.
            for (shard, tenure) in &mut self.tenures {
                tenure.forget(seen[shard.index()]);
            }
        }
        result
    }

    async fn try_cycle(
        &mut self,
        delivered: BTreeMap<Shard, Vec<PublishedEvent>>,
    ) -> anyhow::Result<()> {
        self.watch_checkpoints().await?;
        self.load_checkpoints().await?;
        self.watch_heads().await?;
        let mut admitted = self.admit_delivered(delivered)?;
        self.admit_owed(&mut admitted).await?;
        let read = self.read_payloads(admitted).await?;
        let parked = self.parked_among(&read).await?;
        let mut runs = Vec::with_capacity(read.len());
        for (shard, events) in read {
            let progress = self.progress(shard).expect("events are admitted by it");
            runs.push(Run {
                progress: progress.clone(),
                events,
                parked: parked.clone(),
            });
        }
        self.apply(runs).await?;
        self.release_next().await;
        Ok(())
    }

    /// `None` if the shard is not, or no longer, ours.
    fn progress(&mut self, shard: Shard) -> Option<&mut Progress> {
        self.tenures.get_mut(&shard)?.progress.as_mut()
    }

    /// Looks whether the checkpoints are what is remembered. A crash of Postgres takes the last
    /// moments of commits back that have not waited for the disk, and a session that is opened
    /// anew does not tell of it.
    async fn watch_checkpoints(&mut self) -> anyhow::Result<()> {
        if self.checkpoints_read_at.elapsed() < CHECKPOINTS_INTERVAL {
            return Ok(());
        }
        let shards: Vec<Shard> = self.tenures.keys().copied().collect();
        let rows = checkpoint::load_live(&self.pool, &shards)
            .await
            .context("can't read the checkpoints")?;
        self.checkpoints_read_at = Instant::now();
        for (shard, tenure) in &mut self.tenures {
            tenure.note_parked(*shard, &rows);
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
            if remembered == stored {
                continue;
            }
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
    async fn load_checkpoints(&mut self) -> anyhow::Result<()> {
        let unknown =
            |(shard, tenure): (&Shard, &Tenure)| tenure.progress.is_none().then_some(*shard);
        let shards: Vec<Shard> = self.tenures.iter().filter_map(unknown).collect();
        if shards.is_empty() {
            return Ok(());
        }
        let epoch = log::epoch(&self.pool)
            .await
            .context("can't read the log's epoch")?;
        let rows = checkpoint::load_live(&self.pool, &shards)
            .await
            .context("can't read the checkpoints")?;
        for (shard, tenure) in &mut self.tenures {
            if tenure.progress.is_none() {
                tenure.begin(*shard, epoch, &rows)?;
            }
        }
        Ok(())
    }

    /// Applies the runs; those that somebody else has applied meanwhile are given up.
    async fn apply(&mut self, mut runs: Vec<Run>) -> anyhow::Result<()> {
        while !runs.is_empty() {
            let started_at = Instant::now();
            match apply::apply(&self.pool, &runs, &Projection::ALL).await {
                Ok(Outcome::Applied(effect)) => {
                    histogram!(PROJECTION_APPLY_SECONDS).record(started_at.elapsed());
                    effect.report();
                    self.note_applied(&runs, &effect);
                    return Ok(());
                }
                Ok(Outcome::Lost(shards)) => {
                    let (lost, held): (Vec<Run>, Vec<Run>) = runs
                        .into_iter()
                        .partition(|it| shards.contains(&it.progress.shard()));
                    self.give_up(&lost);
                    runs = held;
                }
                Ok(Outcome::Released) => {
                    tracing::debug!("a parked account was released meanwhile");
                    self.forget(&runs);
                    return Ok(());
                }
                Err(error) if retry::is_refusal(&error) => {
                    tracing::debug!(error = %error, "one of the events is poison");
                    poison::isolate(&self.pool, &runs).await?;
                    self.forget(&runs);
                    return Ok(());
                }
                Err(error) => return Err(error).context("can't apply events"),
            }
        }
        Ok(())
    }

    fn note_applied(&mut self, runs: &[Run], effect: &Effect) {
        for run in runs {
            if let Some(tenure) = self.tenures.get_mut(&run.progress.shard()) {
                tenure.advance(run.end());
            }
        }
        for parking in &effect.parked {
            if let Some(tenure) = self.tenures.get_mut(&parking.account.shard) {
                tenure.has_parked = true;
            }
        }
    }

    /// The runs were applied piece by piece or not at all: the checkpoints know.
    fn forget(&mut self, runs: &[Run]) {
        for run in runs {
            if let Some(tenure) = self.tenures.get_mut(&run.progress.shard()) {
                tenure.forget(run.end());
            }
        }
    }

    fn give_up(&mut self, lost: &[Run]) {
        for run in lost {
            let shard = run.progress.shard();
            counter!(CHECKPOINTS_LOST_TOTAL, "shard" => shard.to_string()).increment(1);
            tracing::warn!(%shard, "somebody else has moved a checkpoint: reading it again");
            match self.tenures.get_mut(&shard) {
                Some(tenure) if !tenure.is_contestable => tenure.forget(run.end()),
                _ => {
                    self.tenures.remove(&shard);
                }
            }
        }
    }
}
