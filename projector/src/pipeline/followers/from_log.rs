//! Reads from the log what the topic has not delivered to a follower.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Context as _;
use linkledger_core::{envelope::RecordedEvent, shard::Shard};
use linkledger_event_store::{
    errors::is_of_stored_data,
    log::{self, ReadFrom},
};

use super::{CYCLE_EVENTS_MAX, Followers, claimed_shard::Group, first_rows, refusal::Refusal};
use crate::pipeline::decode::BatchEvent;

/// Consecutive events of a shard.
struct Chunk {
    events: Vec<RecordedEvent>,
    /// True if the shard has no later events.
    is_end: bool,
}

impl Followers {
    /// Reads the next events of each group from the log: those that write up to `rows_max` rows, and one at least.
    /// Followers whose next event cannot be read are refused.
    pub(super) async fn read_log(
        &mut self,
        groups: Vec<Group>,
        rows_max: usize,
    ) -> anyhow::Result<Vec<(Group, Vec<Arc<BatchEvent>>)>> {
        let events_max = (CYCLE_EVENTS_MAX / groups.len()).max(1);
        let mut read = Vec::with_capacity(groups.len());
        let mut waiting = groups;
        while !waiting.is_empty() {
            // One statement reads each shard once.
            let mut shards = BTreeSet::new();
            let (now, later): (Vec<_>, _) = waiting
                .into_iter()
                .partition(|group| shards.insert(group.shard));
            waiting = later;
            let starts: Vec<ReadFrom> = now.iter().map(Group::start).collect();
            let mut chunks = self.read_chunks(&starts, events_max).await?;
            for group in now {
                match chunks.remove(&group.shard) {
                    Some(Ok(chunk)) => {
                        let events = self.decode(&group, chunk).into_iter();
                        read.push((group, first_rows(events, rows_max)));
                    }
                    Some(Err(error)) => self.refuse_unreadable(group.start(), &error),
                    None => {}
                }
            }
        }
        read.retain(|(_, events)| !events.is_empty());
        Ok(read)
    }

    /// Decodes a chunk, and takes note of the end of the log.
    fn decode(&mut self, group: &Group, chunk: Chunk) -> Vec<Arc<BatchEvent>> {
        let last = chunk
            .events
            .last()
            .map_or(group.position, |event| event.position);
        if let Some(claimed) = self.shards.get_mut(&group.shard) {
            if chunk.is_end {
                claimed.end_at(last);
            }
            for follower in &mut claimed.followers {
                if follower.position() == Some(group.position) {
                    follower.end_refusal_if_read(Some(last).filter(|_| !chunk.is_end));
                }
            }
        }
        let events = chunk.events.into_iter().map(BatchEvent::decode);
        events.map(Arc::new).collect()
    }

    /// Refuses the followers whose next event cannot be read.
    fn refuse_unreadable(&mut self, ReadFrom { shard, after }: ReadFrom, error: &sqlx::Error) {
        let Some(claimed) = self.shards.get_mut(&shard) else {
            return;
        };
        for follower in &mut claimed.followers {
            if follower.position() == Some(after) {
                let error = error.to_string();
                follower.refuse(Refusal::Unreadable {
                    shard,
                    after,
                    error,
                });
            }
        }
    }

    /// Reads up to `limit` events of each shard, or the error because of which its next event cannot be read.
    async fn read_chunks(
        &self,
        starts: &[ReadFrom],
        limit: usize,
    ) -> anyhow::Result<BTreeMap<Shard, sqlx::Result<Chunk>>> {
        let rows_max = limit.try_into()?;
        let mut chunks = BTreeMap::new();
        match log::read_after(&self.databases.log, starts, rows_max).await {
            Err(error) if is_of_stored_data(&error) => {
                for start in starts {
                    let reading = log::read_readable_after(&self.databases.log, *start, rows_max);
                    let chunk = match reading.await {
                        Err(error) if is_of_stored_data(&error) => Err(error),
                        // An unreadable event may follow.
                        events => Ok(Chunk {
                            events: events.context("cannot read the event store")?,
                            is_end: false,
                        }),
                    };
                    chunks.insert(start.shard, chunk);
                }
            }
            events => {
                let mut by_shard: BTreeMap<Shard, Vec<RecordedEvent>> = BTreeMap::new();
                for event in events.context("cannot read the event store")? {
                    by_shard.entry(event.shard).or_default().push(event);
                }
                for start in starts {
                    let events = by_shard.remove(&start.shard).unwrap_or_default();
                    let is_end = events.len() < limit;
                    chunks.insert(start.shard, Ok(Chunk { events, is_end }));
                }
            }
        }
        Ok(chunks)
    }
}
