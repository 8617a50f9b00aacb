//! The relay: publishes the log to Kafka, shard by shard, in order, from a stored cursor.
//!
//! What must stay true: the cursor never passes an event that the broker has not acknowledged, so
//! a run of earlier records may be repeated on the topic, but none is ever missing.

pub mod cursor;
pub mod publisher;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    cloud_event::PublishedEvent,
    event_store::log::{self, PerShard, ReadFrom},
    metrics::{
        RELAY_BACKLOG_EVENTS, RELAY_FAILURES_TOTAL, RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS,
        RELAY_POSITION,
    },
    shard::{Position, Shard},
};
use metrics::{counter, gauge};
use sqlx::PgPool;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use cursor::{Lease, LeaseTable};
use publisher::{EventPublisher, Published};

/// Longest time that an event waits for the relay to look, should nobody have woken it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often leases are renewed; a lease lasts three times as long.
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// How often acknowledged positions are stored at most: the bound on what a crash repeats.
const STORE_INTERVAL: Duration = Duration::from_millis(100);
/// Most events of one shard in one batch.
const SHARD_EVENTS_MAX: i64 = 1_000;
/// First delay after a failure.
const FAILURE_DELAY_MIN: Duration = Duration::from_millis(100);
/// Longest delay between two attempts while the broker or the database is away.
const FAILURE_DELAY_MAX: Duration = Duration::from_secs(5);

/// Publishes the shards that this process has the leases of.
pub struct Relay<P> {
    pool: PgPool,
    publisher: P,
    leases: LeaseTable,
    appended: Arc<Notify>,
    log_epoch: i32,
    batch_interval: Duration,
    /// By shard: the lease, if it is ours, and how far its events are acknowledged.
    held: PerShard<Option<Held>>,
    renewed_at: Option<Instant>,
    stored_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    lease: Lease,
    acknowledged: Position,
    stored: Position,
}

impl<P: EventPublisher> Relay<P> {
    /// A relay that leases shards under the name `owner`, which is the same after a restart.
    pub fn new(
        pool: PgPool,
        publisher: P,
        owner: String,
        appended: Arc<Notify>,
        log_epoch: i32,
    ) -> Self {
        Self {
            leases: LeaseTable::new(pool.clone(), owner),
            pool,
            publisher,
            appended,
            log_epoch,
            batch_interval: Duration::ZERO,
            held: PerShard::default(),
            renewed_at: None,
            stored_at: Instant::now(),
        }
    }

    /// The same with a shortest time between two batches. Under load a batch then collects what
    /// several commits bring, which the broker and every consumer handle at a fraction of the
    /// cost of many small ones.
    #[must_use]
    pub fn with_batch_interval(self, batch_interval: Duration) -> Self {
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
        let mut delay = FAILURE_DELAY_MIN;
        while !shutdown.is_cancelled() {
            let begun = tokio::time::Instant::now();
            let step = tokio::select! {
                step = self.step() => step,
                () = shutdown.cancelled() => break,
            };
            match step {
                Ok(published) => {
                    delay = FAILURE_DELAY_MIN;
                    if published == 0 {
                        self.wait(POLL_INTERVAL, &shutdown).await;
                    } else {
                        tokio::select! {
                            () = tokio::time::sleep_until(begun + self.batch_interval) => {}
                            () = shutdown.cancelled() => {}
                        }
                    }
                }
                Err(error) => {
                    counter!(RELAY_FAILURES_TOTAL).increment(1);
                    tracing::warn!(error = %format!("{error:#}"), ?delay, "relay is held up");
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
        if self
            .renewed_at
            .is_none_or(|at| at.elapsed() >= RENEW_INTERVAL)
        {
            self.renew().await?;
        }
        let events = self.read().await?;
        let count = events.len();
        if count > 0 {
            self.publish(&events).await?;
        }
        if self.stored_at.elapsed() >= STORE_INTERVAL {
            self.store().await?;
        }
        Ok(count)
    }

    async fn read(&self) -> anyhow::Result<Vec<PublishedEvent>> {
        let heads = log::heads(&self.pool)
            .await
            .context("can't read the log's heads")?;
        let mut from = Vec::new();
        for shard in Shard::all() {
            if let Some(held) = self.held[shard.index()] {
                let backlog = heads[shard.index()] - held.acknowledged;
                report_backlog(shard, backlog);
                if backlog == 0 {
                    report_age(shard, 0.0);
                } else {
                    from.push(ReadFrom {
                        shard,
                        after: held.acknowledged,
                    });
                }
            }
        }
        if from.is_empty() {
            return Ok(Vec::new());
        }
        let events = log::read_after(&self.pool, &from, SHARD_EVENTS_MAX).await;
        let log_epoch = self.log_epoch;
        let published = |event| PublishedEvent { event, log_epoch };
        let events = events.context("can't read the log")?;
        let events: Vec<PublishedEvent> = events.into_iter().map(published).collect();
        report_ages(&events);
        Ok(events)
    }

    /// Publishes in order; meanwhile the leases are renewed, and given up with one that is lost.
    async fn publish(&mut self, events: &[PublishedEvent]) -> anyhow::Result<()> {
        let mut publishing = self.publisher.publish(events);
        let Published {
            acknowledged,
            failure,
        } = loop {
            tokio::select! {
                published = &mut publishing => break published,
                () = tokio::time::sleep(RENEW_INTERVAL) => {
                    report_ages(events);
                    if renew_all(&self.leases, &mut self.held).await? {
                        self.renewed_at = Some(Instant::now());
                    } else {
                        // What is on its way will be sent all the same: earlier records,
                        // repeated.
                        anyhow::bail!("a lease was lost while the broker was waited for");
                    }
                }
            }
        };
        drop(publishing);
        for shard in Shard::all() {
            if let (Some(held), Some(position)) =
                (&mut self.held[shard.index()], acknowledged[shard.index()])
            {
                held.acknowledged = position;
                gauge!(RELAY_POSITION, "shard" => shard.to_string()).set(count(position));
            }
        }
        match failure {
            None => Ok(()),
            Some(error) => Err(error.context("the broker did not take every record")),
        }
    }

    async fn renew(&mut self) -> anyhow::Result<()> {
        renew_all(&self.leases, &mut self.held).await?;
        let missing: Vec<Shard> = Shard::all()
            .filter(|shard| self.held[shard.index()].is_none())
            .collect();
        if !missing.is_empty() {
            // A former life of this process may have left leases in its name; later on such a
            // lease is another process's that has the same name.
            let takes_own = self.renewed_at.is_none();
            let acquired = self.leases.acquire(&missing, takes_own).await?;
            // Read last: a predecessor may have published until its lease was taken.
            let heads = log::heads(&self.pool)
                .await
                .context("can't read the log's heads")?;
            for (lease, cursor) in acquired {
                if cursor.epoch != self.log_epoch || cursor.position > heads[lease.shard.index()] {
                    anyhow::bail!(
                        "the cursor of shard {} stands at {} of epoch {}, beyond the log: the log \
                         was restored; nothing is published until an operator decides",
                        lease.shard,
                        cursor.position,
                        cursor.epoch
                    );
                }
                self.held[lease.shard.index()] = Some(Held {
                    lease,
                    acknowledged: cursor.position,
                    stored: cursor.position,
                });
            }
        }
        self.renewed_at = Some(Instant::now());
        Ok(())
    }

    /// Stores how far each shard is acknowledged, where the lease is still ours.
    async fn store(&mut self) -> anyhow::Result<()> {
        let moved: Vec<(Lease, Position)> = self
            .held
            .iter()
            .flatten()
            .filter(|held| held.acknowledged > held.stored)
            .map(|held| (held.lease, held.acknowledged))
            .collect();
        if !moved.is_empty() {
            self.leases.store(&moved).await?;
            for held in self.held.iter_mut().flatten() {
                held.stored = held.acknowledged;
            }
        }
        self.stored_at = Instant::now();
        Ok(())
    }

    async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.store().await?;
        let leases: Vec<Lease> = self.held.iter().flatten().map(|held| held.lease).collect();
        self.leases.release(&leases).await
    }
}

/// Renews the leases; forgets those that are lost and tells whether there were none.
async fn renew_all(leases: &LeaseTable, held: &mut PerShard<Option<Held>>) -> anyhow::Result<bool> {
    let ours: Vec<Lease> = held.iter().flatten().map(|held| held.lease).collect();
    let renewed = leases.renew(&ours).await?;
    for lease in ours.iter().filter(|lease| !renewed.contains(&lease.shard)) {
        tracing::warn!(shard = %lease.shard, "the lease of the shard is lost");
        held[lease.shard.index()] = None;
        // From here on the shard is told of by the process that has it.
        report_backlog(lease.shard, 0);
        report_age(lease.shard, 0.0);
    }
    Ok(renewed.len() == ours.len())
}

/// Tells how old the first of the events of each shard is.
fn report_ages(events: &[PublishedEvent]) {
    let now = SystemClock.now();
    // Shards stand one after the other.
    for of_shard in events.chunk_by(|one, next| one.event.shard == next.event.shard) {
        let age = now - of_shard[0].event.recorded_at;
        report_age(of_shard[0].event.shard, age.as_seconds_f64().max(0.0));
    }
}

fn report_backlog(shard: Shard, events: i64) {
    gauge!(RELAY_BACKLOG_EVENTS, "shard" => shard.to_string()).set(count(events));
}

fn report_age(shard: Shard, seconds: f64) {
    gauge!(RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS, "shard" => shard.to_string()).set(seconds);
}

/// A position or a count of events as a metric; exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating point numbers"
)]
fn count(events: i64) -> f64 {
    events as f64
}
