//! Reads from the log what the topic has not delivered to a follower.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Context as _;
use linkledger_core::{
    envelope::RecordedEvent,
    event_store::{
        errors::is_of_stored_data,
        log::{self, ReadFrom},
    },
    shard::Shard,
};

use super::{
    CYCLE_EVENTS_MAX, Followers,
    claimed_shard::Group,
    first_rows,
    refusal::{Refusal, unreadable_event},
};
use crate::pipeline::decode::BatchEvent;

/// Consecutive events of a shard.
#[derive(Default)]
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
            let (mut chunks, unreadable) = self.read_chunks(&starts, events_max).await?;
            for (start, error) in unreadable {
                self.refuse_unreadable(start, &error);
            }
            for group in now {
                if let Some(chunk) = chunks.remove(&group.shard) {
                    let events = self.decode(&group, chunk).into_iter();
                    read.push((group, first_rows(events, rows_max)));
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
                let description = unreadable_event(shard, after, error);
                follower.refuse(Refusal::Unreadable { after, description });
            }
        }
    }

    /// Reads up to `limit` events of each shard. Also returns the starts whose next event cannot be read.
    async fn read_chunks(
        &self,
        starts: &[ReadFrom],
        limit: usize,
    ) -> anyhow::Result<(BTreeMap<Shard, Chunk>, Vec<(ReadFrom, sqlx::Error)>)> {
        let rows_max = limit.try_into()?;
        let mut chunks: BTreeMap<Shard, Chunk> = BTreeMap::new();
        let mut unreadable = Vec::new();
        match log::read_after(&self.databases.log, starts, rows_max).await {
            Err(error) if is_of_stored_data(&error) => {
                for start in starts {
                    let reading = log::read_readable_after(&self.databases.log, *start, rows_max);
                    match reading.await {
                        Err(error) if is_of_stored_data(&error) => unreadable.push((*start, error)),
                        events => {
                            let events = events.context("cannot read the event store")?;
                            // An unreadable event may follow.
                            let is_end = false;
                            chunks.insert(start.shard, Chunk { events, is_end });
                        }
                    }
                }
            }
            events => {
                chunks.extend(starts.iter().map(|start| (start.shard, Chunk::default())));
                for event in events.context("cannot read the event store")? {
                    let chunk = chunks.entry(event.shard).or_default();
                    chunk.events.push(event);
                }
                for chunk in chunks.values_mut() {
                    chunk.is_end = chunk.events.len() < limit;
                }
            }
        }
        Ok((chunks, unreadable))
    }
}
