//! The relay: publishes the log to Kafka, in order within each shard, from stored cursors.
//!
//! Every instance of command-api runs a relay; a lease lets one of them publish (ADR 12).
//!
//! Invariant: a cursor never passes an event that the broker has not acknowledged, so
//! earlier records may be repeated on the topic, but no record is ever missing.

mod backlog;
pub mod cursor;
mod delivery;
pub mod lease;
mod leased;
mod log_divergence;
mod outage;
pub mod pause;
pub mod producers;
pub mod publisher;
mod publishing;
pub mod refusal;
pub mod republish;
pub mod status;
mod stopped_shards;
pub mod topic;
mod topic_identity;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use linkledger_core::{
    clock::{Clock, SetBackWatch, SystemClock},
    cloud_event::{PublishedEvent, RecordKey},
    envelope::RecordedEvent,
};
use linkledger_event_store::{
    errors::is_of_stored_data,
    log::{self, EventPlace, ReadFrom},
    log_meta,
    time_limit::within,
};
use linkledger_service::{
    fail_point,
    metrics::{RELAY_FAILURES_TOTAL, RELAY_STALLED_SECONDS},
};
use metrics::{counter, gauge};
use sqlx::PgPool;
use tokio::time::{timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::committed_events::CommittedEvents;
use backlog::Backlog;
use cursor::Cursor;
use lease::LeaseTable;
use leased::LeasedShards;
use outage::Outage;
use producers::ProducerRegistration;
use publisher::EventPublisher;
use refusal::{RefusalLog, RelayRefusal};
use stopped_shards::StoppedShards;

/// Interval at which an idle relay looks for new events, if no writer wakes the relay.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Shortest interval between the starts of two batches (ADR 2), unless a shorter one is configured.
const BATCH_INTERVAL_MIN: Duration = Duration::from_millis(5);
/// Rate of events per second at which the interval between two batches reaches the configured length.
const RATE_MAX_PER_S: f64 = 20_000.0;
/// Interval at which the lease is renewed and the backlog is measured; a lease lasts three times
/// as long.
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest interval between two stores of the acknowledged positions; bounds how many records a
/// crash repeats.
const STORE_INTERVAL: Duration = Duration::from_millis(100);
/// Time after which the log is read again although the writers of this process have events: others append too, and
/// the log may have lost published ones.
const LOG_READ_INTERVAL: Duration = Duration::from_millis(100);
/// Highest number of events of one shard that are read from the log for one batch.
const SHARD_EVENTS_MAX: i64 = 1_000;
/// Timeout for a few statements, for a server that does not answer: one that answers ends each statement after
/// its `statement_timeout`.
const STATEMENTS_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time of the hand-over at the end. The database may not answer, and a process has 20 s in all to end; after
/// 3 s another process takes the lease anyway.
const HAND_OVER_TIME_MAX: Duration = Duration::from_secs(5);
/// First backoff after a failure.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Longest backoff: short enough to keep the lease meanwhile, and long enough that the pool then
/// tests its sessions, and replaces those of a server that accepts no writes any more.
const BACKOFF_MAX: Duration = RENEW_INTERVAL;

/// Publishes all shards while this process has the lease.
pub struct Relay {
    pool: PgPool,
    publisher: Arc<dyn EventPublisher>,
    committed: Arc<CommittedEvents>,
    /// Start of the last successful read of the log.
    log_read_at: Option<Instant>,
    /// Longest interval between the starts of two batches.
    pub(crate) batch_interval_max: Duration,
    shards: LeasedShards,
    stopped: StoppedShards,
    producer: ProducerRegistration,
    /// Key of the records' codes; read with each acquisition of the lease, since the log may have been restored.
    record_key: Option<RecordKey>,
    /// Time of the last renewal; none if the last renewal has found a reason against publishing.
    renewed_at: Option<Instant>,
    /// True until the first renewal: an unexpired lease of the same owner is that of an earlier run.
    /// Later, such a lease belongs to another process of the same name.
    takes_own: bool,
    backlog: Backlog,
    wall_clock: SetBackWatch,
    outage: Outage,
    refusal_log: RefusalLog,
}

impl Relay {
    /// Returns a relay that acquires the lease under the name `owner`, which must be the same after
    /// a restart.
    pub fn new(
        pool: PgPool,
        publisher: impl EventPublisher + 'static,
        owner: String,
        committed: Arc<CommittedEvents>,
    ) -> Self {
        Self {
            shards: LeasedShards::new(LeaseTable::new(pool.clone(), owner.clone())),
            stopped: StoppedShards::default(),
            producer: ProducerRegistration::new(pool.clone(), owner),
            pool,
            record_key: None,
            publisher: Arc::new(publisher),
            committed,
            log_read_at: None,
            batch_interval_max: Duration::ZERO,
            renewed_at: None,
            takes_own: true,
            backlog: Backlog::default(),
            wall_clock: SetBackWatch::new(Arc::new(SystemClock)),
            outage: Outage::default(),
            refusal_log: RefusalLog::default(),
        }
    }

    /// Returns the relay with another clock than that of the machine.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.wall_clock = SetBackWatch::new(clock);
        self
    }

    /// Publishes until the shutdown. A failure of the broker or the database is logged and retried
    /// without limit: the log keeps unpublished events.
    ///
    /// # Errors
    /// Never returns an error: every failure is logged and retried.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        gauge!(RELAY_STALLED_SECONDS).set(0.0);
        counter!(RELAY_FAILURES_TOTAL).increment(0);
        let mut backoff = BACKOFF_MIN;
        let mut published_at = Instant::now();
        while !shutdown.is_cancelled() {
            let begun = Instant::now();
            let Some(step) = shutdown.run_until_cancelled(self.step()).await else {
                break;
            };
            match step {
                Ok(published) => {
                    backoff = BACKOFF_MIN;
                    match self.stopped.description() {
                        // Events wait, although no other event does.
                        Some(stopped) if published == 0 => {
                            self.outage.stalled(begun, self.backlog, &stopped);
                        }
                        Some(_) | None => self.outage.published(self.backlog, published),
                    }
                    self.refusal_log.end_refusal(self.shards.lease.is_some());
                    if published == 0 {
                        let commit = timeout(POLL_INTERVAL, self.committed.next_commit());
                        shutdown.run_until_cancelled(commit).await;
                    } else {
                        let (since, max) = (begun - published_at, self.batch_interval_max);
                        let interval = interval_after(published, since, max);
                        published_at = begun;
                        timeout_at((begun + interval).into(), shutdown.cancelled())
                            .await
                            .ok();
                    }
                }
                Err(error) => {
                    let recorded = self.failed(begun, &error);
                    shutdown.run_until_cancelled(recorded).await;
                    timeout(backoff, shutdown.cancelled()).await.ok();
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
        if let Err(error) = within(HAND_OVER_TIME_MAX, self.hand_over()).await {
            tracing::warn!(
                error = %format!("{error:#}"),
                "cannot release the lease of the relay; the lease expires in 3 s"
            );
        }
        Ok(())
    }

    async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.end_producer().await?;
        answered(self.shards.hand_over()).await
    }

    /// Publishes the next batch of unpublished events, and returns their number; 0 without the
    /// lease.
    ///
    /// # Errors
    /// Returns an error if the database or the broker fails; positions that were acknowledged
    /// before the failure are kept. A refused record is no error: it stops its shard.
    pub async fn step(&mut self) -> anyhow::Result<usize> {
        let is_due = |at: Instant| at.elapsed() >= RENEW_INTERVAL;
        if self.renewed_at.is_none_or(is_due) {
            self.renew().await?;
        }
        let Some(lease) = self.shards.lease else {
            self.end_producer().await?;
            return Ok(0);
        };
        self.connect(lease).await?;
        // Ordinarily no shard is stopped and the log lacks nothing: then `stopped_shards` and `log_divergence` let
        // everything through.
        self.handle_ended_retries().await?;
        let events = self.read().await?;
        self.store_stop_reasons(lease).await?;
        let events = self.stopped.retry(events);
        let count = events.len();
        if count > 0 {
            fail_point::reached("relay.read");
            self.publish(&events).await?;
            fail_point::reached("relay.acknowledged");
        }
        if self.shards.stored_at.elapsed() >= STORE_INTERVAL {
            answered(self.shards.store()).await?;
        }
        Ok(count)
    }

    /// Renews or acquires the lease, looks for a reason against publishing, and measures the
    /// backlog.
    async fn renew(&mut self) -> anyhow::Result<()> {
        self.renewed_at = None;
        let end = answered(log::end(&self.pool)).await;
        let end = end.context("cannot read the end of the log")?;
        answered(self.shards.renew()).await?;
        if self.takes_own {
            answered(self.producer.settle_former()).await?;
        }
        if answered(self.shards.acquire(self.takes_own)).await? {
            // The cursors are compared with the topic before a new producer sends anything.
            self.end_producer().await?;
            self.record_key = None;
        }
        if self.shards.log_epoch == Some(end.epoch) {
            self.compare_published(end.epoch).await?;
        }
        let cursors = answered(cursor::read(&self.pool)).await?;
        self.refusal_log
            .log_pause(cursors.iter().find_map(Cursor::pause));
        let checked = answered(log_divergence::check_cursors(&self.pool, &cursors)).await;
        if let Err(error) = checked {
            if error.is::<RelayRefusal>() {
                self.end_producer().await?;
            }
            return Err(error);
        }
        self.shards.log_epoch = Some(end.epoch);
        self.backlog = self.measure().await?;
        self.renewed_at = Some(Instant::now());
        self.takes_own = false;
        Ok(())
    }

    async fn measure(&self) -> anyhow::Result<Backlog> {
        answered(backlog::measure(&self.pool, &self.shards.acknowledged())).await
    }

    /// Returns the next events: those of the writers of this process, if nothing is missing before them and the log was
    /// read a moment ago, or else those of the log.
    async fn read(&mut self) -> anyhow::Result<Vec<PublishedEvent>> {
        let committed = self.committed.take_after(&self.shards.acknowledged());
        let (events, epoch) = match (committed, self.shards.log_epoch) {
            (Some(events), Some(epoch)) if self.may_skip_log() => (events, epoch),
            _ => {
                let begun = Instant::now();
                let read = self.read_log().await?;
                self.log_read_at = Some(begun);
                read
            }
        };
        let key = self.record_key().await?;
        let published = |event| PublishedEvent::new(event, epoch).signed(&key);
        Ok(events.into_iter().map(published).collect())
    }

    fn may_skip_log(&self) -> bool {
        let is_recent = |at: Instant| at.elapsed() < LOG_READ_INTERVAL;
        self.stopped.is_empty() && self.log_read_at.is_some_and(is_recent)
    }

    /// Returns the next events of the log, and its epoch.
    async fn read_log(&mut self) -> anyhow::Result<(Vec<RecordedEvent>, i32)> {
        let end = answered(log::end(&self.pool)).await;
        let end = end.context("cannot read the end of the log")?;
        if !self.shards.are_of(&end) {
            // The log was restored meanwhile.
            self.renew().await?;
            return Ok((Vec::new(), end.epoch));
        }
        let mut from = self.shards.acknowledged();
        from.retain(|from| {
            end.heads[from.shard.index()] > from.after && self.stopped.admits(from.shard)
        });
        if from.is_empty() && self.shards.are_compared {
            return Ok((Vec::new(), end.epoch));
        }
        let mut events = match answered(log::read_after(&self.pool, &from, SHARD_EVENTS_MAX)).await
        {
            Err(error) if is_of_stored_data(&error) => self.read_each(&from).await?,
            read => read.context("cannot read the log")?,
        };
        // Compared after the events are read: what the log had lost before, it lacks now. Otherwise events that took
        // the positions of published ones could be followed by others, and nobody would notice.
        let Some(mut unreadable) = self.compare_published(end.epoch).await? else {
            self.renew().await?;
            return Ok((Vec::new(), end.epoch));
        };
        unreadable.retain(|(place, _)| from.iter().any(|from| from.shard == place.shard));
        for (place, error) in unreadable {
            events.retain(|event| event.shard != place.shard);
            self.stop_unreadable(
                place.shard,
                &format!("the event at position {}", place.position),
                error.into(),
            );
        }
        // The head of each shard of `from` is beyond the cursor, so the shard has a next event.
        let lacks_next = |from: &&ReadFrom| events.iter().all(|event| event.shard != from.shard);
        for ReadFrom { shard, after } in from.iter().filter(lacks_next) {
            if self.stopped.admits(*shard) {
                let event = format!("the event after position {after}");
                self.stop_unreadable(*shard, &event, anyhow!("the log lacks the event"));
            }
        }
        Ok((events, end.epoch))
    }

    /// Compares the published events with the log. Returns those that cannot be read; `None` if the log lacks one.
    async fn compare_published(
        &mut self,
        epoch: i32,
    ) -> anyhow::Result<Option<Vec<(EventPlace, sqlx::Error)>>> {
        let published = self.shards.published();
        let comparing = log_divergence::compare_published(&self.pool, &published, epoch);
        let unreadable = answered(comparing).await?;
        if unreadable.is_some() {
            self.shards.record_compared();
        }
        Ok(unreadable)
    }

    async fn record_key(&mut self) -> anyhow::Result<RecordKey> {
        if let Some(key) = &self.record_key {
            return Ok(key.clone());
        }
        let key = answered(log_meta::record_key(&self.pool)).await;
        let key = key.context("cannot read the key of the records")?;
        Ok(self.record_key.insert(key).clone())
    }
}

/// Awaits `work` on the database with a timeout: every step of the relay may be dropped half-way.
async fn answered<T, E: From<sqlx::Error>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    within(STATEMENTS_TIMEOUT, work).await
}

/// Returns the time from the start of a batch of `events` to the start of the next batch, at most
/// `max`, if the batch before started `since` earlier.
///
/// Under load a batch then has the events of several commits, which cost broker and consumers a
/// fraction of many small batches. At a low rate the saving is not worth a long wait. The interval
/// depends on the rate alone, not on the last interval: otherwise short intervals would stay short
/// under load.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn interval_after(events: usize, since: Duration, max: Duration) -> Duration {
    let rate_per_s = events as f64 / since.as_secs_f64().max(f64::MIN_POSITIVE);
    let grown = max.mul_f64((rate_per_s / RATE_MAX_PER_S).min(1.0));
    grown.max(BATCH_INTERVAL_MIN).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn interval_grows_with_rate_to_maximum() {
        for (events, since, expected) in [
            (1, 1_000, 5),
            (25, 5, 5),
            (100, 10, 10),
            (200, 20, 10),
            (400, 20, 20),
            (16_000, 20, 20),
            (1, 0, 20),
        ] {
            let found = interval_after(events, ms(since), ms(20));
            assert_eq!(found, ms(expected), "{events} in {since} ms");
        }
    }

    #[test]
    fn interval_is_never_longer_than_configured() {
        for max in [0, 2] {
            assert_eq!(interval_after(1_000, ms(10), ms(max)), ms(max));
            assert_eq!(interval_after(0, ms(10), ms(max)), ms(max));
        }
    }
}
