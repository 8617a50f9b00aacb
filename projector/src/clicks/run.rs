//! The loop of the aggregation: receives records, counts them in batches, and reports how far the topic is counted.

mod partitions;
mod topic_end;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use linkledger_clicks::tally::Tally;
use linkledger_core::clock::{SetBackWatch, SystemClock};
use linkledger_event_store::{errors, time_limit::within};
use linkledger_service::{
    databases::Databases,
    metrics::{CLICKS_LAG_RECORDS, CLICKS_MISSING_TOTAL, CLICKS_UNREADABLE_TOTAL},
};
use metrics::{counter, gauge};
use sqlx::PgPool;
use tokio::time::{Instant, sleep_until};

use super::{
    AggregationEnd, BATCH_INTERVAL, batch,
    claimed_partition::ClaimedPartition,
    consumer::ClickConsumer,
    partition_days::{PartitionDays, days_of},
    topic_ends::{TopicEnds, TopicEndsRequests},
};
use crate::{Config, pipeline::claims::ClaimedShards};

/// Maximum number of records of one delivery.
const RECEIVED_MAX: usize = 8_192;
/// Longest time between two looks at the topic's ends, paused partitions and partitions that wait.
const STEP_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a batch on this side; its statements have timeouts of their own.
const BATCH_TIME_MAX: Duration = Duration::from_secs(30);
/// Records that wait in all partitions, from which on batches begin before they are due.
const WAITING_MAX: usize = 65_536;
/// SQLSTATEs of a statement that took longer than its timeout, and of a transaction that stood still.
const TOO_LONG: [&str; 2] = ["57014", "25P03"];
/// Interval at which the same failure is logged again.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// The aggregation in the shards that this process has claimed: the partitions of clicks with their numbers.
pub struct AggregationLoop {
    log: PgPool,
    pool: PgPool,
    consumer: ClickConsumer,
    claimed: ClaimedShards,
    /// Claimed partitions; `None` while the position is not read, or the aggregation is paused.
    partitions: BTreeMap<u8, Option<ClaimedPartition>>,
    /// Partitions whose aggregation was paused when their positions were read.
    paused: BTreeSet<u8>,
    days: PartitionDays,
    requests: TopicEndsRequests,
    wall_clock: SetBackWatch,
    positions_read_at: Option<Instant>,
    warned_at: Option<Instant>,
    warned_of_records_at: Option<Instant>,
    is_ending_at_topic_end: bool,
    /// Ends that must be reached before the aggregation ends.
    last_ends: Option<TopicEnds>,
}

impl AggregationLoop {
    /// Returns an aggregation that has not begun.
    ///
    /// # Errors
    /// Returns an error if the Kafka client refuses the settings.
    pub fn new(
        config: &Config,
        databases: Databases,
        claimed: ClaimedShards,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            log: databases.log,
            pool: databases.read,
            consumer: ClickConsumer::new(config)?,
            claimed,
            partitions: BTreeMap::new(),
            paused: BTreeSet::new(),
            days: PartitionDays::default(),
            requests: TopicEndsRequests::default(),
            wall_clock: SetBackWatch::new(Arc::new(SystemClock)),
            positions_read_at: None,
            warned_at: None,
            warned_of_records_at: None,
            is_ending_at_topic_end: false,
            last_ends: None,
        })
    }

    /// Counts until one of the ends.
    ///
    /// # Errors
    /// Returns an error if the Kafka client has failed for good, the wall clock was set back, or the client
    /// has lost its brokers: the supervisor starts a new loop at the stored positions.
    pub async fn run(mut self, end: AggregationEnd) -> anyhow::Result<()> {
        let result = self.run_until(&end).await;
        gauge!(CLICKS_LAG_RECORDS).set(0.0);
        self.consumer.close().await;
        result
    }

    async fn run_until(&mut self, end: &AggregationEnd) -> anyhow::Result<()> {
        while !end.now.is_cancelled() && !self.has_reached_end_of_topic() {
            if end.at_end_of_topic.is_cancelled() && !self.is_ending_at_topic_end {
                self.is_ending_at_topic_end = true;
                self.requests.reset();
            }
            // Nobody would start another loop after the last one of a process.
            if !self.is_ending_at_topic_end {
                if let Some(set_back) = self.wall_clock.set_back() {
                    bail!("{set_back}");
                }
                if let Some(lost) = self.consumer.take_lost_brokers() {
                    bail!(lost);
                }
            }
            let wake_at = self.wake_at();
            let is_ending = self.is_ending_at_topic_end;
            let deadline = async {
                tokio::select! {
                    () = sleep_until(wake_at) => {}
                    () = end.now.cancelled() => {}
                    () = end.at_end_of_topic.cancelled(), if !is_ending => {}
                }
            };
            let records = self.consumer.receive(RECEIVED_MAX, deadline).await?;
            self.follow_claims();
            self.take(records);
            self.begin_partitions().await;
            self.measure().await;
            self.count_due(end).await;
            self.bound_queues();
        }
        Ok(())
    }

    /// Returns the instant of the next step without a record.
    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let partitions = self.partitions.values().flatten();
        let due = partitions.filter_map(|it| it.due_at(self.interval())).min();
        let step = now + STEP_INTERVAL;
        due.map_or(step, |due| due.clamp(now, step))
    }

    /// Returns the time that records wait for a fuller batch.
    fn interval(&self) -> Duration {
        if self.is_ending_at_topic_end || self.waiting() >= WAITING_MAX {
            Duration::ZERO
        } else {
            BATCH_INTERVAL
        }
    }

    fn waiting(&self) -> usize {
        let partitions = self.partitions.values().flatten();
        partitions.map(|partition| partition.queue.len()).sum()
    }

    /// Counts a batch of each partition that is due.
    async fn count_due(&mut self, end: &AggregationEnd) {
        let (interval, now) = (self.interval(), Instant::now());
        let due = self.partitions.iter().filter(|(_, partition)| {
            let due_at = partition.as_ref().and_then(|it| it.due_at(interval));
            due_at.is_some_and(|due_at| due_at <= now)
        });
        let due: Vec<u8> = due.map(|(number, _)| *number).collect();
        for number in due {
            if end.now.is_cancelled() {
                return;
            }
            self.count(number).await;
        }
    }

    async fn count(&mut self, number: u8) {
        let Some(Some(partition)) = self.partitions.get_mut(&number) else {
            return;
        };
        match count_first(number, partition, &self.pool, &mut self.days).await {
            Ok(Some(tally)) => {
                self.report_counted(number, &tally);
                if let Some(Some(partition)) = self.partitions.get_mut(&number) {
                    partition.complete(&tally);
                }
            }
            Ok(None) => {
                tracing::info!(
                    partition = number,
                    "the position of clicks was moved or paused by another session; reading it again"
                );
                self.consumer.end(number);
                self.partitions.insert(number, None);
            }
            Err(error) => self.handle_failure(number, &error),
        }
    }

    fn report_counted(&mut self, number: u8, tally: &Tally) {
        let missing = tally.sequences.missing();
        counter!(CLICKS_UNREADABLE_TOTAL).increment(tally.unreadable);
        counter!(CLICKS_MISSING_TOTAL).increment(missing);
        let has_warned = self.warned_of_records_at;
        let is_due = has_warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if is_due && (tally.unreadable > 0 || missing > 0) {
            self.warned_of_records_at = Some(Instant::now());
            tracing::warn!(
                partition = number,
                unreadable = tally.unreadable,
                missing,
                before_offset = tally.next_offset,
                first_unreadable = self.consumer.first_unreadable.take(),
                "the topic of clicks has unreadable records, or lacks records"
            );
        }
    }

    /// Prepares the next batch after a failure. A batch that takes too long is halved.
    fn handle_failure(&mut self, number: u8, error: &sqlx::Error) {
        let Some(Some(partition)) = self.partitions.get_mut(&number) else {
            return;
        };
        if errors::is_lock_timeout(error) {
            partition.back_off();
            self.warn_of(
                error,
                "a recount, a pause or another projector holds a position of clicks",
            );
            return;
        }
        if is_too_long(error) && partition.attempted() > 1 {
            partition.halve();
            return;
        }
        partition.back_off();
        // A partition of a table may have been dropped.
        self.days.forget();
        self.warn_of(error, "cannot count clicks");
    }

    /// Logs a failure that is retried, at most once per [`WARNING_INTERVAL`].
    fn warn_of(&mut self, error: &sqlx::Error, attempt: &str) {
        if self
            .warned_at
            .is_some_and(|at| at.elapsed() < WARNING_INTERVAL)
        {
            return;
        }
        self.warned_at = Some(Instant::now());
        tracing::warn!(
            error = error as &dyn std::error::Error,
            "{attempt}; retrying"
        );
    }
}

/// Counts the first records of a partition.
async fn count_first(
    number: u8,
    partition: &mut ClaimedPartition,
    pool: &PgPool,
    days: &mut PartitionDays,
) -> sqlx::Result<Option<Tally>> {
    let (records, limits) = (&partition.queue, &mut partition.limits);
    let clicked_on = days_of(records.iter().take(limits.records_max));
    within(BATCH_TIME_MAX, days.ensure(pool, clicked_on)).await?;
    let aggregation = batch::count(pool, number, &partition.position, records, limits);
    within(BATCH_TIME_MAX, aggregation).await
}

/// Returns true if a smaller batch may succeed: a statement, a pause between two statements, or the whole batch has
/// exceeded its timeout.
fn is_too_long(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Io(error) = error {
        return error.kind() == io::ErrorKind::TimedOut;
    }
    errors::sqlstate(error).is_some_and(|state| TOO_LONG.contains(&state.as_ref()))
}
