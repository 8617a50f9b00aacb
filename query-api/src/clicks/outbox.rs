//! Clicks that wait for the acknowledgement of the broker, in order, with sequences.
//!
//! Invariant: in each partition, the sequences of the waiting records follow each other without a gap, and
//! a record leaves only from the front. Memory is bounded: beyond the bound, clicks are merged, first those of the
//! accounts with the most waiting clicks, and merged clicks get sequences when there is room again.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use linkledger_clicks::{CLICK_PARTITIONS, Click, click_partition};
use linkledger_core::id::{AccountId, LinkId};

use super::{
    ACCOUNT_SHARE,
    merged::{ClickFacts, MergedClicks, milliseconds_of, take_from},
};

/// Number of partitions.
pub(super) const PARTITIONS: usize = CLICK_PARTITIONS as usize;
/// Maximum number of unacknowledged records of one partition that the producer has.
pub(super) const IN_FLIGHT_MAX: usize = 1_000;
/// Bytes of a record besides its value: its slot, the value's block, its part of the queue's growth, and its account.
const RECORD_BYTES: usize = 160;
/// Maximum number of merged records of one partition that get sequences at a time.
const QUEUED_AT_ONCE_MAX: usize = 64;
/// Time after which a broker may have forgotten a silent producer; Kafka's default is a day.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);

/// One value for each partition.
pub(super) type PerPartition<T> = [T; PARTITIONS];

/// Records of all partitions.
pub(super) struct Outbox {
    partitions: PerPartition<PartitionQueue>,
    /// Bytes of the records.
    bytes: usize,
    /// Bound of the records, and again of the merged clicks.
    bytes_max: usize,
}

/// Record without its sequence.
#[derive(Debug)]
pub(super) struct OutboxRecord {
    pub(super) link_id: LinkId,
    account_id: AccountId,
    pub(super) value: Box<[u8]>,
    /// Number of clicks.
    count: u32,
}

/// Fate of a click that is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    Queued,
    /// Merged: only the details are lost.
    Merged,
    Lost,
}

#[derive(Debug, Default)]
struct PartitionQueue {
    records: VecDeque<OutboxRecord>,
    bytes: usize,
    /// Bytes of the records of each account that has some.
    accounts: HashMap<AccountId, usize>,
    /// Number of sequences that were given away before the first record of `records`.
    sequences_before: u64,
    /// Number of records at the front that the producer has.
    in_flight: usize,
    /// Highest sequence that is sent alone, after a refusal.
    alone_until: u64,
    /// Time of the last acknowledgement to this producer.
    acknowledged_at: Option<Instant>,
    /// Time of the last acknowledgement, or since when records wait.
    progressed_at: Option<Instant>,
    merged: MergedClicks,
}

impl Outbox {
    /// Returns an empty outbox for records of `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            partitions: PerPartition::default(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Adds a click, and gives it the next sequence of its partition if there is room. Clicks of an account are
    /// merged until all of its merged clicks of the partition have left, which would else wait for ever.
    pub(super) fn add(&mut self, click: &Click) -> Added {
        let number = click_partition(click.link_id);
        let partition = &self.partitions[usize::from(number)];
        if !partition.merged.has_account(click.account_id) {
            let record = OutboxRecord::of(click);
            if self.has_room_for_account(number, &record) {
                self.push(number, record);
                return Added::Queued;
            }
        }
        self.merge(click)
    }

    fn merge(&mut self, click: &Click) -> Added {
        let bytes_free = self.bytes_max.saturating_sub(self.merged_bytes());
        let number = usize::from(click_partition(click.link_id));
        let facts = ClickFacts {
            link_id: click.link_id,
            account_id: click.account_id,
            slug: &click.slug,
            clicked_at_ms: milliseconds_of(click.clicked_at),
            kind: click.kind,
            count: click.count,
        };
        if self.partitions[number].merged.add(&facts, bytes_free) {
            Added::Merged
        } else {
            Added::Lost
        }
    }

    /// Returns the bytes that a partition may still take. A partition may have as many bytes as are then free, so that
    /// partitions without a leader leave room for the others: one takes half of all, several that stall together
    /// take equal shares, and a later one half of what the earlier ones have left.
    fn room(&self, number: u8) -> usize {
        let free = self.bytes_max.saturating_sub(self.bytes);
        free.saturating_sub(self.partitions[usize::from(number)].bytes)
    }

    /// Returns true if the room of the partition has the account's share for the record.
    fn has_room_for_account(&self, number: u8, record: &OutboxRecord) -> bool {
        let accounts = &self.partitions[usize::from(number)].accounts;
        let own = accounts.get(&record.account_id).copied();
        ACCOUNT_SHARE.may_add(own.unwrap_or(0), record.bytes(), self.room(number))
    }

    fn push(&mut self, number: u8, record: OutboxRecord) {
        let partition = &mut self.partitions[usize::from(number)];
        let bytes = record.bytes();
        if partition.records.is_empty() {
            partition.progressed_at = Some(Instant::now());
        }
        self.bytes += bytes;
        partition.bytes += bytes;
        *partition.accounts.entry(record.account_id).or_default() += bytes;
        partition.records.push_back(record);
    }

    /// Gives sequences to merged clicks of the partitions that have room again, whosever they are: they are few.
    pub(super) fn queue_merged(&mut self) {
        for number in 0..CLICK_PARTITIONS {
            let index = usize::from(number);
            let partition = &self.partitions[index];
            if partition.bytes >= self.bytes_max.saturating_sub(self.bytes) / 2 {
                continue;
            }
            for _ in 0..QUEUED_AT_ONCE_MAX {
                let Some(click) = self.partitions[index].merged.pop() else {
                    break;
                };
                let record = OutboxRecord::of(&click);
                if record.bytes() > self.room(number) {
                    self.merge(&click);
                    break;
                }
                self.push(number, record);
            }
        }
    }

    /// Returns the next record of a partition for the producer, with its sequence, unless as many records as
    /// allowed are unacknowledged.
    ///
    /// A broker takes any first batch of an unknown producer, even one whose predecessor was refused: the
    /// first record of a partition is sent alone (ADR 6).
    pub(super) fn next_to_send(&self, number: u8, now: Instant) -> Option<(u64, &OutboxRecord)> {
        let partition = &self.partitions[usize::from(number)];
        let record = partition.records.get(partition.in_flight)?;
        let sequence = partition.sequence_of(partition.in_flight);
        let is_known = partition
            .acknowledged_at
            .is_some_and(|at| now.saturating_duration_since(at) < REMEMBERED_FOR);
        let in_flight_max = if is_known && sequence > partition.alone_until {
            IN_FLIGHT_MAX
        } else {
            1
        };
        (partition.in_flight < in_flight_max).then_some((sequence, record))
    }

    /// Records that the producer has the record of [`Outbox::next_to_send`].
    pub(super) fn mark_sent(&mut self, number: u8) {
        self.partitions[usize::from(number)].in_flight += 1;
    }

    /// Removes an acknowledged record. The broker acknowledges the records of a partition in order; an
    /// acknowledgement of any other record than the first is of an earlier producer.
    pub(super) fn acknowledge(&mut self, number: u8, sequence: u64, now: Instant) {
        let partition = &mut self.partitions[usize::from(number)];
        if partition.in_flight > 0 && sequence == partition.sequence_of(0) {
            partition.acknowledged_at = Some(now);
            partition.progressed_at = Some(now);
            partition.in_flight -= 1;
            self.drop_first(number);
        }
    }

    /// Handles a record that the broker has refused because of its content or size: drops the record, and returns the
    /// number of its clicks, if this record alone was refused. `None` means that it was refused together with others:
    /// each is sent again alone.
    pub(super) fn refuse(&mut self, number: u8, sequence: u64) -> Option<u32> {
        let partition = &mut self.partitions[usize::from(number)];
        if partition.in_flight <= 1 && sequence == partition.sequence_of(0) {
            partition.in_flight = 0;
            let dropped = self.drop_first(number);
            return Some(dropped.map_or(0, |record| record.count));
        }
        let last = partition.sequence_of(partition.in_flight.max(1) - 1);
        partition.alone_until = partition.alone_until.max(last);
        None
    }

    fn drop_first(&mut self, number: u8) -> Option<OutboxRecord> {
        let partition = &mut self.partitions[usize::from(number)];
        let record = partition.records.pop_front()?;
        partition.sequences_before += 1;
        partition.bytes -= record.bytes();
        take_from(&mut partition.accounts, record.account_id, record.bytes());
        self.bytes -= record.bytes();
        Some(record)
    }

    /// Forgets the producer: a new one sends everything again that is unacknowledged.
    pub(super) fn forget_producer(&mut self) {
        for partition in &mut self.partitions {
            partition.in_flight = 0;
            partition.acknowledged_at = None;
        }
    }

    /// Returns the last sequence of each partition; 0 for none.
    pub(super) fn last_sequences(&self) -> PerPartition<u64> {
        std::array::from_fn(|number| {
            let partition = &self.partitions[number];
            partition.sequence_of(partition.records.len()) - 1
        })
    }

    /// Returns an instant that no merged click is earlier than.
    pub(super) fn first_merged_ms(&self) -> Option<i64> {
        let partitions = self.partitions.iter();
        partitions.filter_map(|it| it.merged.first_ms()).min()
    }

    /// Returns the longest time for which records of a partition wait without any acknowledgement.
    pub(super) fn stalled(&self, now: Instant) -> Duration {
        let waiting = self.partitions.iter().filter(|it| !it.records.is_empty());
        let since = waiting.filter_map(|it| it.progressed_at).min();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Returns the number of records.
    pub(super) fn record_count(&self) -> usize {
        self.partitions.iter().map(|it| it.records.len()).sum()
    }

    /// Returns the number of clicks in records and in merged clicks.
    pub(super) fn click_count(&self) -> u64 {
        let of = |partition: &PartitionQueue| {
            let records = partition.records.iter().map(|it| u64::from(it.count));
            records.sum::<u64>() + partition.merged.count()
        };
        self.partitions.iter().map(of).sum()
    }

    /// Returns true if no click waits.
    pub(super) fn is_empty(&self) -> bool {
        let mut partitions = self.partitions.iter();
        partitions.all(|it| it.records.is_empty() && it.merged.is_empty())
    }

    fn merged_bytes(&self) -> usize {
        self.partitions.iter().map(|it| it.merged.bytes()).sum()
    }
}

impl PartitionQueue {
    /// Returns the sequence of a record by its index.
    fn sequence_of(&self, index: usize) -> u64 {
        self.sequences_before + 1 + index as u64
    }
}

impl OutboxRecord {
    fn of(click: &Click) -> Self {
        Self {
            link_id: click.link_id,
            account_id: click.account_id,
            value: click.to_value().into(),
            count: click.count,
        }
    }

    fn bytes(&self) -> usize {
        RECORD_BYTES + self.value.len()
    }
}

#[cfg(test)]
mod tests;
