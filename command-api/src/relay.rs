//! The relay: publishes the log to Kafka, shard by shard, in order, from a stored cursor.
//!
//! What must stay true: the cursor never passes an event that the broker has not acknowledged, so
//! a run of earlier records may be repeated on the topic, but none is ever missing.

mod backlog;
pub mod batch_interval;
pub mod binding;
mod connect;
mod continuity;
pub mod cursor;
mod delivery;
mod held;
mod outage;
pub mod pause;
pub mod producers;
pub mod publisher;
pub mod refill;
pub mod refusal;
mod standing;
pub mod status;
pub mod topic;

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::{log, time_limit::within},
    fail_point,
    metrics::{RELAY_FAILURES_TOTAL, RELAY_HELD_UP_SECONDS},
};
use metrics::{counter, gauge};
use sqlx::PgPool;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use backlog::Backlog;
use batch_interval::BatchInterval;
use cursor::LeaseTable;
use held::{HeldShards, Renewal};
use outage::Outage;
use producers::Note;
use publisher::EventPublisher;
use refusal::Refusal;
use standing::Standing;

/// Longest time that an event waits for the relay to look, should nobody have woken it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often leases are renewed and the backlog is looked at; a lease lasts three times as long.
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// How often acknowledged positions are stored at most: the bound on what a crash repeats.
const STORE_INTERVAL: Duration = Duration::from_millis(100);
/// Most events of one shard in one batch.
const SHARD_EVENTS_MAX: i64 = 1_000;
/// Longest wait for the answers to a few statements, each of which a server that is there ends by
/// itself.
const STATEMENTS_TIME_MAX: Duration = Duration::from_secs(15);
/// First delay after a failure.
const FAILURE_DELAY_MIN: Duration = Duration::from_millis(100);
/// Longest delay between two attempts: short enough to keep the leases meanwhile.
const FAILURE_DELAY_MAX: Duration = RENEW_INTERVAL;
/// A broker that acknowledges nothing for so long is told of; it is waited for all the same.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Publishes the shards that this process has the leases of.
pub struct Relay<P> {
    pool: PgPool,
    publisher: Arc<P>,
    appended: Arc<Notify>,
    batch_interval: BatchInterval,
    shards: HeldShards,
    producer: Note,
    renewed_at: Option<Instant>,
    /// A lease was taken that the producer, if there is one, knows nothing of.
    is_any_unbound: bool,
    /// The last renewal found nothing that speaks against publishing.
    is_renewed: bool,
    backlog: Backlog,
    outage: Outage,
    standing: Standing,
}

impl<P: EventPublisher> Relay<P> {
    /// A relay that leases shards under the name `owner`, which is the same after a restart.
    pub fn new(pool: PgPool, publisher: P, owner: String, appended: Arc<Notify>) -> Self {
        Self {
            shards: HeldShards::new(LeaseTable::new(pool.clone(), owner.clone())),
            producer: Note::new(pool.clone(), owner),
            pool,
            publisher: Arc::new(publisher),
            appended,
            batch_interval: BatchInterval::default(),
            renewed_at: None,
            is_any_unbound: false,
            is_renewed: false,
            backlog: Backlog::default(),
            outage: Outage::default(),
            standing: Standing::default(),
        }
    }

    /// The same, collecting for that long between two batches.
    #[must_use]
    pub fn with_batch_interval(self, batch_interval: BatchInterval) -> Self {
        Self {
            batch_interval,
            ..self
        }
    }

    /// Publishes until the shutdown. A failure of the broker or the database is told and tried
    /// again, for as long as it takes: the log keeps what is to be published.
    ///
    /// # Errors
    /// None: every failure is told and tried again.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        gauge!(RELAY_HELD_UP_SECONDS).set(0.0);
        counter!(RELAY_FAILURES_TOTAL).increment(0);
        let mut delay = FAILURE_DELAY_MIN;
        let mut published_at = Instant::now();
        while !shutdown.is_cancelled() {
            let begun = Instant::now();
            let step = tokio::select! {
                step = self.step() => step,
                () = shutdown.cancelled() => break,
            };
            match step {
                Ok(published) => {
                    delay = FAILURE_DELAY_MIN;
                    self.outage.published(self.backlog, published);
                    if !self.shards.leases().is_empty() {
                        self.standing.accepted();
                    }
                    if published == 0 {
                        self.wait(POLL_INTERVAL, &shutdown).await;
                    } else {
                        let interval = self.batch_interval.after(published, begun - published_at);
                        published_at = begun;
                        let next = begun + interval;
                        tokio::select! {
                            () = tokio::time::sleep_until(next.into()) => {}
                            () = shutdown.cancelled() => {}
                        }
                    }
                }
                Err(error) => {
                    self.failed(begun, &error).await;
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = shutdown.cancelled() => {}
                    }
                    delay = (delay * 2).min(FAILURE_DELAY_MAX);
                }
            }
        }
        if let Err(error) = self.hand_over().await {
            tracing::warn!(error = %format!("{error:#}"), "the leases run out by themselves");
        }
        Ok(())
    }

    async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.end_producer().await?;
        answered("handing the leases over", self.shards.hand_over()).await
    }

    async fn wait(&self, time: Duration, shutdown: &CancellationToken) {
        tokio::select! {
            () = self.appended.notified() => {}
            () = tokio::time::sleep(time) => {}
            () = shutdown.cancelled() => {}
        }
    }

    /// Publishes what has been appended to the leased shards since the last time, and returns how
    /// many events that were.
    ///
    /// # Errors
    /// When the database or the broker fails; what was acknowledged until then is kept.
    pub async fn step(&mut self) -> anyhow::Result<usize> {
        let is_due = |at: Instant| at.elapsed() >= RENEW_INTERVAL;
        if !self.is_renewed || self.renewed_at.is_none_or(is_due) {
            self.renew().await?;
        }
        if self.shards.leases().is_empty() {
            self.end_producer().await?;
            return Ok(0);
        }
        self.connect().await?;
        let events = self.read().await?;
        let count = events.len();
        if count > 0 {
            fail_point::reached("relay.read");
            self.publish(&events).await?;
            fail_point::reached("relay.acknowledged");
        }
        if self.shards.stored_at.elapsed() >= STORE_INTERVAL {
            answered("storing the cursors", self.shards.store()).await?;
        }
        Ok(count)
    }

    /// Renews the leases, takes those that are free, and looks at the backlog.
    async fn renew(&mut self) -> anyhow::Result<()> {
        self.is_renewed = false;
        let end = self.log_end().await?;
        answered(
            "giving leases up",
            self.shards.leave_unless_of(&end, &self.pool),
        )
        .await?;
        answered("renewing the leases", self.shards.renew()).await?;
        // A former life of this process may have left leases in its name; later on such a lease
        // is another process's that has the same name.
        let takes_own = self.renewed_at.is_none();
        if takes_own {
            answered(
                "settling the former producer",
                self.producer.settle_former(),
            )
            .await?;
        }
        self.is_any_unbound |=
            answered("taking free leases", self.shards.acquire(takes_own)).await?;
        let last = self.shards.last();
        answered(
            "comparing what was published with the log",
            continuity::watch(&self.pool, &last, end.epoch),
        )
        .await?;
        let refusal = answered("judging the topic", continuity::judge(&self.pool)).await?;
        if self.is_any_unbound || refusal.is_some() {
            // Their cursors are compared with the topic before anything is sent.
            self.end_producer().await?;
            self.is_any_unbound = false;
        }
        self.standing
            .paused(answered("looking for a pause", pause::find(&self.pool)).await?);
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        self.backlog = self.measure().await?;
        self.renewed_at = Some(Instant::now());
        self.is_renewed = true;
        Ok(())
    }

    async fn measure(&self) -> anyhow::Result<Backlog> {
        answered(
            "measuring the backlog",
            backlog::measure(&self.pool, &self.shards.acknowledged()),
        )
        .await
    }

    async fn log_end(&self) -> anyhow::Result<log::LogEnd> {
        let end = async { Ok(log::end(&self.pool).await?) };
        answered("can't read where the log ends", end).await
    }

    async fn read(&mut self) -> anyhow::Result<Vec<PublishedEvent>> {
        let end = self.log_end().await?;
        if !self.shards.are_of(&end) {
            // It was restored meanwhile.
            self.renew().await?;
            return Ok(Vec::new());
        }
        let from = self.shards.behind(&end.heads);
        if from.is_empty() {
            return Ok(Vec::new());
        }
        let events = async { Ok(log::read_after(&self.pool, &from, SHARD_EVENTS_MAX).await?) };
        let events = answered("can't read the log", events).await?;
        let log_epoch = end.epoch;
        let published = |event| PublishedEvent { event, log_epoch };
        Ok(events.into_iter().map(published).collect())
    }

    /// Publishes in order, and checks that the topic is still the same.
    async fn publish(&mut self, events: &[PublishedEvent]) -> anyhow::Result<()> {
        let to = Arc::clone(&self.publisher);
        let published = match self.wait_for(to.publish(events)).await {
            Ok(Some(published)) => published,
            // What is on its way may arrive all the same: earlier records, repeated.
            given_up => {
                self.end_producer().await?;
                return given_up.map(drop);
            }
        };
        if let Some(lease) = self.shards.began_again(&published) {
            answered(
                "noting that the topic was lost",
                self.shards.table.note_topic_lost(lease),
            )
            .await?;
            self.end_producer().await?;
            return Err(Refusal::BeganAgain { shard: lease.shard }.into());
        }
        self.shards.acknowledge(&published, events);
        match published.failure {
            None => Ok(()),
            Some(error) => Err(error.context("the broker did not take every record")),
        }
    }

    /// Waits for the broker; meanwhile the leases are renewed, and given up with one that is lost.
    /// Returns nothing when publishing is paused by then.
    async fn wait_for<T>(&mut self, answer: impl Future<Output = T>) -> anyhow::Result<Option<T>> {
        let begun = Instant::now();
        let mut answer = pin!(answer);
        loop {
            tokio::select! {
                answer = &mut answer => return Ok(Some(answer)),
                () = tokio::time::sleep(RENEW_INTERVAL) => {}
            }
            match answered("renewing the leases", self.shards.renew()).await? {
                Renewal::Kept => {}
                Renewal::Paused => return Ok(None),
                Renewal::Lost => anyhow::bail!("a lease was lost while the broker was waited for"),
            }
            self.renewed_at = Some(Instant::now());
            self.backlog = self.measure().await?;
            if begun.elapsed() >= SILENCE_MAX {
                let trouble = self.publisher.trouble();
                let reason = trouble.as_deref();
                let reason = reason.unwrap_or("the broker acknowledges nothing");
                self.outage.held_up(begun, self.backlog, reason);
            }
        }
    }
}

/// What the database says, if it does in time: every step of the relay may be dropped half-way.
async fn answered<T>(
    what: &'static str,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    within(STATEMENTS_TIME_MAX, work).await.context(what)
}
