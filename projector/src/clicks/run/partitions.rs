//! Partitions of the aggregation: claims, begin of the fetch, received records, bounds of the queues.

use std::{collections::BTreeSet, time::Duration};

use linkledger_clicks::tally::PartitionRecord;
use linkledger_core::shard::Shard;
use linkledger_event_store::{
    log_meta,
    time_limit::{ANSWER_TIME_MAX, within},
};
use rdkafka::Offset;
use tokio::time::Instant;

use super::{AggregationLoop, WAITING_MAX};
use crate::clicks::{
    claimed_partition::{ClaimedPartition, LIMITS_MAX},
    position,
};

/// Interval at which positions of partitions that wait are read.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);
/// Records of a partition from which on its fetch is paused while too many records wait.
const WAITING_OF_PARTITION_MIN: usize = 4_096;

impl AggregationLoop {
    /// Begins the partitions of shards that this process has claimed, and ends those of shards that it has lost.
    pub(super) fn follow_claims(&mut self) {
        let number = |shard: &Shard| u8::try_from(shard.index()).ok();
        let claimed: BTreeSet<u8> = {
            let shards = self.claimed.borrow_and_update();
            shards.iter().filter_map(number).collect()
        };
        let known: BTreeSet<u8> = self.partitions.keys().copied().collect();
        if known == claimed {
            return;
        }
        // Positions are read at once, and ends of the new partitions are asked for.
        self.positions_read_at = None;
        self.requests.reset();
        self.last_ends = None;
        for number in known.difference(&claimed) {
            self.consumer.end(*number);
            self.partitions.remove(number);
            self.paused.remove(number);
        }
        let new = claimed.difference(&known).map(|number| (*number, None));
        self.partitions.extend(new);
        self.report_lag();
    }

    pub(super) fn take(&mut self, records: Vec<(u8, PartitionRecord)>) {
        for (number, record) in records {
            if let Some(Some(partition)) = self.partitions.get_mut(&number) {
                partition.receive(record);
            }
        }
        self.restart();
    }

    /// Begins partitions of another topic at their beginnings.
    pub(super) fn restart(&mut self) {
        let of_other_topic = self.partitions.iter().filter(|(_, partition)| {
            let partition = partition.as_ref();
            partition.is_some_and(|it| it.is_of_other_topic)
        });
        let of_other_topic: Vec<u8> = of_other_topic.map(|(number, _)| *number).collect();
        if of_other_topic.is_empty() {
            return;
        }
        tracing::warn!(
            partitions = of_other_topic.len(),
            "the topic of clicks was created anew, as at each start of the embedded broker: statistics are kept, and \
             the records of the new topic are added"
        );
        for number in of_other_topic {
            if let Some(Some(partition)) = self.partitions.get_mut(&number) {
                partition.restart();
                self.begin_fetch(number, Offset::Beginning);
            }
        }
    }

    fn begin_fetch(&mut self, number: u8, from: Offset) {
        if let Err(error) = self.consumer.begin(number, from) {
            tracing::warn!(%error, partition = number, "cannot fetch a partition of clicks; retrying");
            self.partitions.insert(number, None);
        }
    }

    /// Reads the positions of partitions that wait, and begins those that are not paused.
    pub(super) async fn begin_partitions(&mut self) {
        let waiting = self.partitions.iter().filter(|(_, it)| it.is_none());
        let waiting: Vec<u8> = waiting.map(|(number, _)| *number).collect();
        let is_due = self
            .positions_read_at
            .is_none_or(|at| at.elapsed() >= POSITIONS_INTERVAL);
        if waiting.is_empty() || !is_due {
            return;
        }
        self.positions_read_at = Some(Instant::now());
        let reading = async {
            let key = log_meta::click_record_key(&self.log).await?;
            Ok((key, position::read_all(&self.pool).await?))
        };
        match within(ANSWER_TIME_MAX, reading).await {
            Ok((key, positions)) => {
                self.consumer.key = Some(key);
                for (number, position) in positions {
                    if !waiting.contains(&number) {
                        continue;
                    }
                    if position.paused_at.is_some() {
                        self.paused.insert(number);
                        continue;
                    }
                    self.paused.remove(&number);
                    let partition = ClaimedPartition::at(position);
                    let from = partition.fetched_from();
                    self.partitions.insert(number, Some(partition));
                    self.begin_fetch(number, from);
                }
            }
            Err(error) => self.warn_of(&error, "cannot read key and positions of clicks"),
        }
    }

    /// Pauses the fetch of partitions with too many waiting records, and resumes the others.
    pub(super) fn bound_queues(&mut self) {
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
                    tracing::debug!(%error, "cannot pause or resume a partition of clicks");
                }
            }
        }
    }
}
