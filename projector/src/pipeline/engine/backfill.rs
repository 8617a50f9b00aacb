//! Reads the events of shards that lag behind, or of which the topic lacks events, from the event store.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use linkledger_core::{
    envelope::RecordedEvent,
    event_store::{
        errors::is_of_stored_data,
        log::{self, ReadFrom},
    },
    shard::Shard,
};

use super::{
    CYCLE_EVENTS_MAX, Engine,
    admission::{EventsByShard, add},
    shard_assignment::ShardAssignment,
    shard_refusal::unreadable_event,
};
use crate::pipeline::{apply::ShardBatch, decode::BatchEvent, progress::ShardProgress};

/// Consecutive events of a shard, read from the event store.
#[derive(Default)]
struct Chunk {
    events: Vec<RecordedEvent>,
    /// True if the shard has no later events.
    is_end: bool,
}

impl Engine {
    /// Adds a chunk of the event store for each shard that needs a backfill and of which no
    /// delivered event was admitted.
    pub(super) async fn admit_backfill(
        &mut self,
        admission: &mut EventsByShard,
    ) -> anyhow::Result<()> {
        let starts = self.backfill_starts(admission);
        if starts.is_empty() {
            return Ok(());
        }
        let delivered: usize = admission.values().map(Vec::len).sum();
        let limit = (CYCLE_EVENTS_MAX.saturating_sub(delivered) / starts.len()).max(1);
        let (chunks, unreadable) = self.read_chunks(&starts, limit).await?;
        for (ReadFrom { shard, after }, error) in unreadable {
            self.refuse_unreadable(shard, after, &error);
        }
        for (shard, Chunk { events, is_end }) in chunks {
            if let Some(assignment) = self.assignments.get_mut(&shard) {
                // `None` after the end of the log: all events of the shard were read.
                let last = events.last().map(|event| event.position);
                assignment.end_refusal_if_read(shard, last.filter(|_| !is_end));
            }
            let progress = self
                .progress(shard)
                .expect("a shard that needs a backfill has progress");
            let admitted = progress.admit_read(events, is_end);
            let gap = &admitted.gap;
            ensure!(
                gap.is_none(),
                "the event store lacks {gap:?} of shard {shard}"
            );
            add(admission, shard, admitted);
        }
        Ok(())
    }

    /// Reads a chunk for each shard with a projection that catches up. The chunks become separate
    /// batches, so that the other projections of the shard stay live, also if the next event of a projection that
    /// catches up cannot be read.
    pub(super) async fn catch_up_batches(&mut self) -> anyhow::Result<Vec<ShardBatch>> {
        let assignments = self.assignments.values();
        let catching_up: Vec<ShardProgress> = assignments
            .filter_map(ShardAssignment::catching_up)
            .collect();
        let starts = catching_up.iter().filter_map(|progress| {
            let (shard, after) = (progress.shard(), progress.floor()?);
            Some(ReadFrom { shard, after })
        });
        let starts: Vec<ReadFrom> = starts.collect();
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let limit = (CYCLE_EVENTS_MAX / starts.len()).max(1);
        let (mut chunks, unreadable) = self.read_chunks(&starts, limit).await?;
        for (ReadFrom { shard, after }, error) in unreadable {
            if let Some(assignment) = self.assignments.get_mut(&shard) {
                assignment.delay_catch_up(&unreadable_event(shard, after, &error));
            }
        }
        let mut decoded = BTreeMap::<Shard, Vec<BatchEvent>>::new();
        for progress in &catching_up {
            let Chunk { mut events, .. } = chunks.remove(&progress.shard()).unwrap_or_default();
            events.retain(|event| event.position <= progress.backfill_until());
            if !events.is_empty() {
                let events = events.into_iter().map(BatchEvent::decode).collect();
                decoded.insert(progress.shard(), events);
            }
        }
        let progress_of = |shard| catching_up.iter().find(|it| it.shard() == shard).cloned();
        self.batches(decoded, progress_of).await
    }

    /// Reads up to `limit` events of each shard from the event store. Also returns the starts whose next
    /// event cannot be read.
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

    fn backfill_starts(&self, admission: &EventsByShard) -> Vec<ReadFrom> {
        let assignments = self.assignments.iter();
        let others = assignments.filter(|(shard, _)| !admission.contains_key(shard));
        let starts = others.filter_map(|(shard, assignment)| {
            let progress = assignment.progress.as_ref()?;
            let (shard, after) = (*shard, progress.floor()?);
            progress
                .needs_backfill()
                .then_some(ReadFrom { shard, after })
        });
        starts.collect()
    }
}
