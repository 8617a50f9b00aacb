//! Brings the read models up to date, cycle by cycle, for the shards that this process looks
//! after: from the events that were delivered, and from the event store where those don't reach.
//!
//! Knows nothing of Kafka. What it remembers of a shard is a guess that each transaction checks.

mod admission;
mod checkpoints;
mod heads;
mod parked;
pub(crate) mod refusal;
mod tenure;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::{log::PerShard, time_limit::within},
    metrics::PROJECTION_APPLY_SECONDS,
    shard::{Position, Shard},
};
use metrics::histogram;
use sqlx::PgPool;
use tokio::time::Instant;

pub use self::heads::HEADS_INTERVAL;
use self::{checkpoints::CHECKPOINTS_INTERVAL, tenure::Tenure};
use crate::pipeline::{
    apply::{self, Effect, Outcome, Run, Target},
    decode::RunEvent,
    heartbeat::Tenancy,
    progress::Progress,
    retry,
};

/// Longest time of a cycle, in minutes: several statements, of which each is short. Only a database
/// that is gone without a word takes longer.
const CYCLE_TIME_MAX: Duration = Duration::from_mins(1);
/// Most events of one transaction, so that it stays far below a second.
pub const CYCLE_EVENTS_MAX: usize = 4_000;

/// Least events that are shared out to two transactions.
const SHARED_EVENTS_MIN: usize = 2_000;

/// What has come of a transaction; none is needed for nothing.
type TransactionEnd = sqlx::Result<Option<Outcome>>;

/// Applies events to the read models.
pub struct Engine {
    pool: PgPool,
    tenures: BTreeMap<Shard, Tenure>,
    heads_read_at: Option<Instant>,
    ages_read_at: Option<Instant>,
    checkpoints_due_at: Instant,
}

impl Engine {
    /// An engine that looks after no shard yet.
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            tenures: BTreeMap::new(),
            heads_read_at: None,
            ages_read_at: None,
            checkpoints_due_at: Instant::now() + CHECKPOINTS_INTERVAL,
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
            let is_behind = progress.is_some_and(|it| it.is_owed() || it.behind().is_some());
            is_behind || tenure.is_unknown() || tenure.is_release_due()
        })
    }

    /// The shards that this process looks after.
    pub fn tenancies(&self) -> Vec<Tenancy> {
        let tenures = self.tenures.iter();
        tenures.map(|(shard, it)| it.tenancy(*shard)).collect()
    }

    /// Applies what is next in line, in one transaction, or in two at once if it is much.
    ///
    /// # Errors
    /// When the database does not answer, or has not what it must have.
    /// The delivered events need not come again: the next cycle reads them from the event store.
    pub async fn cycle(&mut self, delivered: Vec<PublishedEvent>) -> anyhow::Result<()> {
        let mut by_shard: BTreeMap<Shard, Vec<PublishedEvent>> = BTreeMap::new();
        let mut seen = PerShard::<Position>::default();
        for published in delivered {
            let (shard, position) = (published.event.shard, published.event.position);
            seen[shard.index()] = seen[shard.index()].max(position);
            by_shard.entry(shard).or_default().push(published);
        }
        let result = within(CYCLE_TIME_MAX, Box::pin(self.try_cycle(by_shard))).await;
        if result.is_err() {
            // Also when the outcome of a COMMIT is unknown, or nobody answers: the checkpoints know.
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
        let mut admitted = self.admit_delivered(delivered).await?;
        self.drop_what_the_log_lacks(&mut admitted).await?;
        self.admit_owed(&mut admitted).await?;
        let read = self.read_payloads(admitted).await?;
        let runs = self.runs(read, |shard| self.tenures[&shard].progress.clone());
        let runs = runs.await?;
        self.apply(runs).await?;
        let runs = self.runs_behind().await?;
        self.apply(runs).await?;
        self.release_next().await;
        Ok(())
    }

    /// Runs of these events, from the progress of their shards.
    async fn runs(
        &self,
        events: BTreeMap<Shard, Vec<RunEvent>>,
        progress_of: impl Fn(Shard) -> Option<Progress>,
    ) -> anyhow::Result<Vec<Run>> {
        let parked = self.parked_among(&events).await?;
        let skipped = self.skipped_among(&events).await?;
        let runs = events.into_iter().map(|(shard, events)| Run {
            progress: progress_of(shard).expect("events are read on its account"),
            events,
            parked: parked.clone(),
            skipped: skipped.clone(),
        });
        Ok(runs.collect())
    }

    /// `None` if the shard is not, or no longer, ours.
    fn progress(&mut self, shard: Shard) -> Option<&mut Progress> {
        self.tenures.get_mut(&shard)?.progress.as_mut()
    }

    /// Applies the runs: those of many events in two transactions at once, each of shards of its
    /// own, so that two sessions of the database work while there is much to catch up.
    async fn apply(&mut self, runs: Vec<Run>) -> anyhow::Result<()> {
        let (one, other) = in_two(runs);
        let (of_one, of_other) = tokio::join!(self.attempt(&one), self.attempt(&other));
        let settled = self.settle(one, of_one).await;
        settled.and(self.settle(other, of_other).await)
    }

    async fn attempt(&self, runs: &[Run]) -> TransactionEnd {
        if runs.is_empty() {
            return Ok(None);
        }
        let started_at = Instant::now();
        let outcome = apply::apply(&self.pool, runs, Target::LIVE).await?;
        if matches!(outcome, Outcome::Applied(_)) {
            histogram!(PROJECTION_APPLY_SECONDS).record(started_at.elapsed());
        }
        Ok(Some(outcome))
    }

    /// Draws the consequences; tries again without the shards whose checkpoints are not what is
    /// remembered.
    async fn settle(
        &mut self,
        mut runs: Vec<Run>,
        mut attempt: TransactionEnd,
    ) -> anyhow::Result<()> {
        loop {
            match attempt {
                Ok(None) => return Ok(()),
                Ok(Some(Outcome::Applied(effect))) => {
                    effect.report();
                    self.note_applied(&runs, &effect);
                    return Ok(());
                }
                Ok(Some(Outcome::Lost(shards))) => {
                    let (lost, held): (Vec<Run>, Vec<Run>) = runs
                        .into_iter()
                        .partition(|it| shards.contains(&it.progress.shard()));
                    self.put_off(&lost);
                    runs = held;
                    attempt = self.attempt(&runs).await;
                }
                Ok(Some(outcome @ (Outcome::Released | Outcome::Paused))) => {
                    tracing::debug!(?outcome, "an operator was faster: reading it again");
                    self.forget(&runs);
                    return Ok(());
                }
                Err(error) if retry::is_refusal(&error) => {
                    tracing::debug!(error = %error, "one of the events is poison");
                    apply::isolate(&self.pool, &runs, Target::LIVE).await?;
                    self.forget(&runs);
                    return Ok(());
                }
                Err(error) => return Err(error).context("can't apply events"),
            }
        }
    }

    fn note_applied(&mut self, runs: &[Run], effect: &Effect) {
        for run in runs {
            if let Some(tenure) = self.tenures.get_mut(&run.progress.shard()) {
                tenure.advance(&run.progress, run.end());
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

    /// Their checkpoints are not what is remembered: what they are says whether the shards are
    /// ours still.
    fn put_off(&mut self, lost: &[Run]) {
        for run in lost {
            if let Some(progress) = self.progress(run.progress.shard()) {
                progress.owe(run.end());
            }
        }
        self.checkpoints_due_at = Instant::now();
    }
}

/// Two parts of about as many events, if there are enough of them.
fn in_two(runs: Vec<Run>) -> (Vec<Run>, Vec<Run>) {
    let events: usize = runs.iter().map(|run| run.events.len()).sum();
    if events < SHARED_EVENTS_MIN {
        return (runs, Vec::new());
    }
    let mut in_one = 0;
    runs.into_iter().partition(|run| {
        let belongs = in_one < events / 2;
        if belongs {
            in_one += run.events.len();
        }
        belongs
    })
}
