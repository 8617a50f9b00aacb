//! The loop of a counting: receives records, counts them in batches, and reports how far the topic is counted.

mod failure;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use linkledger_core::{
    click::{
        Counting,
        tally::{PartitionRecord, TallyLimits},
    },
    event_store::time_limit::within,
    metrics::{
        CLICK_BATCHES_TOTAL, CLICK_ROWS_WRITTEN_TOTAL, CLICKS_COUNTED_TOTAL, CLICKS_LAG_RECORDS,
        CLICKS_MISSING_TOTAL, CLICKS_UNREADABLE_TOTAL,
    },
};
use metrics::{counter, gauge};
use rdkafka::Offset;
use sqlx::PgPool;
use tokio::time::{Instant, sleep_until};

use super::{
    CountingEnd,
    assignment::{Admission, LIMITS_MAX, PartitionAssignment},
    batch::{self, BatchOutcome, BatchPlace, CountedBatch},
    batch_interval,
    consumer::{AssignmentChange, ClickConsumer, ClickDelivery},
    partition_days::PartitionDays,
    position::{self, ReadToEnd},
    topic_ends::{TopicEnds, TopicEndsRequests},
};
use crate::Config;

/// Maximum number of records of one delivery.
const RECEIVED_MAX: usize = 8_192;
/// Longest time between two looks at the topic's ends, paused countings and partitions that wait.
const STEP_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which positions of partitions that wait are read.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a batch on this side; its statements have timeouts of their own.
const BATCH_TIME_MAX: Duration = Duration::from_secs(30);
/// Records that wait in all partitions, from which on batches begin before they are due.
const WAITING_MAX: usize = 65_536;
/// Records of a partition from which on its fetch is paused while too many records wait.
const WAITING_OF_PARTITION_MIN: usize = 4_096;
/// Interval at which the same failure is logged again.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// A counting of the partitions that the consumer group assigns to this process.
pub struct CountingLoop {
    counting: Counting,
    pool: PgPool,
    consumer: ClickConsumer,
    /// Assigned partitions; `None` while the position is not read, or the counting is paused.
    partitions: BTreeMap<u8, Option<PartitionAssignment>>,
    days: PartitionDays,
    requests: TopicEndsRequests,
    positions_read_at: Option<Instant>,
    warned_at: Option<Instant>,
    warned_of_records_at: Option<Instant>,
    is_ending_at_topic_end: bool,
    /// Ends that must be reached before the counting ends.
    last_ends: Option<TopicEnds>,
}

impl CountingLoop {
    /// Joins the consumer group of the counting.
    ///
    /// # Errors
    /// Returns an error if the Kafka client refuses the settings.
    pub fn new(counting: Counting, config: &Config, pool: PgPool) -> anyhow::Result<Self> {
        Ok(Self {
            counting,
            pool,
            consumer: ClickConsumer::join(counting, config)?,
            partitions: BTreeMap::new(),
            days: PartitionDays::default(),
            requests: TopicEndsRequests::default(),
            positions_read_at: None,
            warned_at: None,
            warned_of_records_at: None,
            is_ending_at_topic_end: false,
            last_ends: None,
        })
    }

    /// Counts until one of the ends, and leaves the group.
    ///
    /// # Errors
    /// Returns an error if the Kafka client has failed for good: a new loop begins where this one was.
    pub async fn run(mut self, end: CountingEnd) -> anyhow::Result<()> {
        let result = self.run_until(&end).await;
        gauge!(CLICKS_LAG_RECORDS, "counting" => self.counting.name()).set(0.0);
        self.consumer.leave().await;
        result
    }

    async fn run_until(&mut self, end: &CountingEnd) -> anyhow::Result<()> {
        while !end.now.is_cancelled() && !self.has_reached_end_of_topic() {
            if end.at_end_of_topic.is_cancelled() && !self.is_ending_at_topic_end {
                self.is_ending_at_topic_end = true;
                self.requests.reset();
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
            let delivery = self.consumer.receive(RECEIVED_MAX, deadline).await?;
            self.take(delivery);
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
            batch_interval(self.counting)
        }
    }

    fn waiting(&self) -> usize {
        let partitions = self.partitions.values().flatten();
        partitions.map(|partition| partition.queue.len()).sum()
    }

    fn has_reached_end_of_topic(&self) -> bool {
        let Some(last) = &self.last_ends else {
            return false;
        };
        self.partitions.iter().all(|(number, partition)| {
            let end = last.ends.get(number).map(|ends| ends.end);
            match (partition, end) {
                (Some(partition), Some(end)) => partition.has_counted_to(end),
                (Some(_), None) => false,
                (None, _) => true,
            }
        })
    }

    fn take(&mut self, delivery: ClickDelivery) {
        for change in delivery.assignment_changes {
            // Positions are read at once, and ends of the new partitions are asked for.
            self.positions_read_at = None;
            self.requests.reset();
            match change {
                AssignmentChange::Assigned(partitions) => {
                    let new = partitions.into_iter().map(|partition| (partition, None));
                    self.partitions.extend(new);
                }
                AssignmentChange::Revoked(partitions) => {
                    self.partitions.retain(|it, _| !partitions.contains(it));
                }
            }
        }
        // The rest of a delivery is older than the fetch that it restarts.
        let mut restarted = BTreeSet::new();
        for (number, record) in delivery.records {
            let Some(Some(partition)) = self.partitions.get_mut(&number) else {
                continue;
            };
            if !restarted.contains(&number) && partition.receive(record) == Admission::OtherTopic {
                self.restart(number);
                restarted.insert(number);
            }
        }
    }

    /// Begins a partition of another topic at its beginning.
    fn restart(&mut self, number: u8) {
        let Some(Some(partition)) = self.partitions.get_mut(&number) else {
            return;
        };
        tracing::warn!(
            counting = self.counting.name(),
            partition = number,
            "the topic of clicks is another one than before: counting from its beginning; clicks that \
             were counted before are not counted again"
        );
        partition.restart();
        self.begin_fetch(number, Offset::Beginning);
    }

    fn begin_fetch(&mut self, number: u8, from: Offset) {
        if let Err(error) = self.consumer.begin(number, from) {
            let counting = self.counting.name();
            tracing::warn!(%error, counting, partition = number, "cannot fetch a partition of clicks; retrying");
            self.partitions.insert(number, None);
        }
    }

    /// Reads the positions of partitions that wait, and begins those that are not paused.
    async fn begin_partitions(&mut self) {
        let waiting = self.partitions.iter().filter(|(_, it)| it.is_none());
        let waiting: Vec<u8> = waiting.map(|(number, _)| *number).collect();
        let is_due = self
            .positions_read_at
            .is_none_or(|at| at.elapsed() >= POSITIONS_INTERVAL);
        if waiting.is_empty() || !is_due {
            return;
        }
        self.positions_read_at = Some(Instant::now());
        match position::read(&self.pool, self.counting, &waiting).await {
            Ok(positions) => {
                let ready = positions
                    .into_iter()
                    .filter(|(_, it)| it.paused_at.is_none());
                for (number, position) in ready {
                    let partition = PartitionAssignment::at(position);
                    let from = partition.fetched_from();
                    self.partitions.insert(number, Some(partition));
                    self.begin_fetch(number, from);
                }
            }
            Err(error) => self.warn_of(&error, "cannot read the positions of a counting"),
        }
    }

    /// Asks for the ends of the topic once a second, and records which partitions are read to their end.
    async fn measure(&mut self) {
        if let Some(answer) = self.requests.take().await {
            for (number, ends) in &answer.ends {
                let counted = answer.counted.get(number).copied().unwrap_or(0);
                let Some(Some(partition)) = self.partitions.get_mut(number) else {
                    continue;
                };
                if partition.measure(*ends, counted, answer.at) == Admission::OtherTopic {
                    self.restart(*number);
                }
            }
            if self.is_ending_at_topic_end && !self.partitions.is_empty() {
                self.last_ends.get_or_insert(answer);
            }
            self.report_lag();
        }
        self.record_read_to_end().await;
        let counted = self.partitions.iter();
        let counted: BTreeMap<u8, i64> = counted
            .filter_map(|(number, it)| Some((*number, it.as_ref()?.counted())))
            .collect();
        if self.requests.is_due() && !counted.is_empty() {
            let begun = self
                .requests
                .begin(&self.pool, &self.consumer, counted)
                .await;
            if let Err(error) = begun {
                self.warn_of(&error, "cannot read the clock of the database");
            }
        }
    }

    async fn record_read_to_end(&mut self) {
        let ends: Vec<ReadToEnd> = self
            .partitions
            .iter_mut()
            .filter_map(|(number, partition)| {
                let partition = partition.as_mut()?;
                Some(ReadToEnd {
                    partition: *number,
                    at: partition.read_to_end_at.take()?,
                    next_offset: partition.position.next_offset,
                })
            })
            .collect();
        if ends.is_empty() {
            return;
        }
        let recorded = position::record_read_to_end(&self.pool, self.counting, &ends).await;
        if let Err(error) = recorded {
            self.warn_of(
                &error,
                "cannot record that the topic of clicks is read to its end",
            );
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn report_lag(&self) {
        let lag: u64 = self.partitions.values().flatten().map(|it| it.lag).sum();
        gauge!(CLICKS_LAG_RECORDS, "counting" => self.counting.name()).set(lag as f64);
    }

    /// Counts a batch of each partition that is due.
    async fn count_due(&mut self, end: &CountingEnd) {
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
        let Some(Some(partition)) = self.partitions.get(&number) else {
            return;
        };
        match count_first(self.counting, number, partition, &self.pool, &mut self.days).await {
            Ok(BatchOutcome::Counted(batch)) => {
                self.report_counted(number, &batch);
                if let Some(Some(partition)) = self.partitions.get_mut(&number) {
                    partition.complete(&batch);
                }
            }
            Ok(BatchOutcome::Moved) => {
                let counting = self.counting.name();
                tracing::info!(
                    counting,
                    partition = number,
                    "the position of clicks was moved or paused by another session; reading it again"
                );
                self.consumer.end(number);
                self.partitions.insert(number, None);
            }
            Err(error) => self.handle_failure(number, &error),
        }
    }

    fn report_counted(&mut self, number: u8, batch: &CountedBatch) {
        let counting = self.counting.name();
        let (tally, missing) = (&batch.tally, batch.tally.sequences.missing());
        counter!(CLICK_BATCHES_TOTAL, "counting" => counting).increment(1);
        counter!(CLICKS_COUNTED_TOTAL, "counting" => counting).increment(tally.clicks);
        counter!(CLICKS_UNREADABLE_TOTAL, "counting" => counting).increment(tally.unreadable);
        counter!(CLICKS_MISSING_TOTAL, "counting" => counting).increment(missing);
        counter!(CLICK_ROWS_WRITTEN_TOTAL, "counting" => counting).increment(batch.rows as u64);
        let has_warned = self.warned_of_records_at;
        let is_due = has_warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if is_due && (tally.unreadable > 0 || missing > 0) {
            self.warned_of_records_at = Some(Instant::now());
            tracing::warn!(
                counting,
                partition = number,
                unreadable = tally.unreadable,
                missing,
                before_offset = tally.next_offset,
                "the topic of clicks has unreadable records, or lacks records"
            );
        }
    }

    /// Pauses the fetch of partitions with too many waiting records, and resumes the others.
    fn bound_queues(&mut self) {
        let is_full = self.waiting() >= 2 * WAITING_MAX;
        for (number, partition) in &mut self.partitions {
            let Some(partition) = partition else {
                continue;
            };
            let waiting = partition.queue.len();
            let is_too_long =
                waiting >= LIMITS_MAX.records_max || is_full && waiting >= WAITING_OF_PARTITION_MIN;
            let is_short = waiting < WAITING_OF_PARTITION_MIN;
            let is_paused = is_too_long || partition.is_fetch_paused && !is_short;
            if is_paused == partition.is_fetch_paused {
                continue;
            }
            match self.consumer.set_paused(*number, is_paused) {
                Ok(()) => partition.is_fetch_paused = is_paused,
                Err(error) => {
                    tracing::debug!(%error, "cannot pause or resume a partition of clicks")
                }
            }
        }
    }
}

/// Counts the first records of a partition. A first record that the database refuses is counted as unreadable.
async fn count_first(
    counting: Counting,
    number: u8,
    partition: &PartitionAssignment,
    pool: &PgPool,
    days: &mut PartitionDays,
) -> sqlx::Result<BatchOutcome> {
    let place = BatchPlace {
        counting,
        partition: number,
        position: &partition.position,
    };
    if let Some(first) = partition
        .queue
        .front()
        .filter(|_| partition.is_first_refused)
    {
        let skipped = PartitionRecord {
            click: None,
            ..first.clone()
        };
        let limits = TallyLimits {
            records_max: 1,
            rows_max: 1,
        };
        return within(
            BATCH_TIME_MAX,
            batch::count(pool, place, [&skipped], limits),
        )
        .await;
    }
    let limits = partition.limits;
    let clicks = partition.queue.iter().take(limits.records_max);
    let clicks = clicks.filter_map(|record| record.click.as_ref());
    let clicked_on = clicks.map(|click| click.clicked_at.to_offset(time::UtcOffset::UTC).date());
    within(BATCH_TIME_MAX, days.ensure(pool, clicked_on.collect())).await?;
    within(
        BATCH_TIME_MAX,
        batch::count(pool, place, &partition.queue, limits),
    )
    .await
}
