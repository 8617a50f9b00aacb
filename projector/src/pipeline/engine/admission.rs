//! Selects the events that a cycle applies: the next events among the delivered ones, and chunks of
//! the event store for shards that need a backfill.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::RecordedEvent,
    event_store::{
        errors::is_of_data,
        log::{self, EventPlace, ReadFrom},
        log_meta,
    },
    metrics::{DUPLICATES_DROPPED_TOTAL, GAPS_REPAIRED_TOTAL, RECORDS_FOREIGN_TOTAL},
    projection::Projection,
    shard::{Position, Shard},
};
use metrics::counter;

use super::{CYCLE_EVENTS_MAX, Engine, shard_refusal::ShardRefusal};
use crate::pipeline::{
    apply::{self, ShardBatch},
    decode::BatchEvent,
    progress::{AdmittedEvents, LaterEpoch, Progress},
};

/// Consecutive events of each shard.
pub(super) type EventsByShard = BTreeMap<Shard, Vec<RecordedEvent>>;

/// Consecutive events of a shard, read from the event store.
#[derive(Default)]
struct Chunk {
    events: Vec<RecordedEvent>,
    /// True if the shard has no later events.
    is_end: bool,
}

impl Engine {
    /// Returns the delivered events that are next in each shard.
    pub(super) async fn admit_delivered(
        &mut self,
        delivered: BTreeMap<Shard, Vec<PublishedEvent>>,
    ) -> anyhow::Result<EventsByShard> {
        let mut admission = EventsByShard::new();
        let mut later_epochs = Vec::new();
        for (shard, events) in delivered {
            // Records of a revoked shard may still have been in the consumer's queue.
            let Some(assignment) = self.assignments.get_mut(&shard) else {
                continue;
            };
            let Some(progress) = &mut assignment.progress else {
                continue;
            };
            let delivered_until = events
                .iter()
                .map(|published| published.event.position)
                .max();
            let admitted = match progress.admit_delivered(events) {
                Ok(admitted) => admitted,
                Err(later_epoch) => {
                    assignment.forget_progress(delivered_until.unwrap_or_default());
                    later_epochs.push((shard, later_epoch));
                    continue;
                }
            };
            if let Some(gap) = &admitted.gap {
                counter!(GAPS_REPAIRED_TOTAL, "shard" => shard.to_string()).increment(1);
                let (from, to) = (gap.start(), gap.end());
                tracing::warn!(%shard, from, to, "the topic lacks events: reading the log instead");
            }
            add(&mut admission, shard, admitted);
        }
        self.report_later_epochs(&later_epochs).await?;
        Ok(admission)
    }

    /// Logs the records of a later epoch. Such a record is an error unless the epoch of the log was
    /// raised as well.
    async fn report_later_epochs(&self, records: &[(Shard, LaterEpoch)]) -> anyhow::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let epoch = log_meta::epoch(&self.databases.log)
            .await
            .context("cannot read the epoch of the log")?;
        for (shard, record) in records {
            if record.found > epoch {
                report_foreign(*shard, &record.to_string());
            } else {
                tracing::info!(%shard, epoch, "the epoch of the log was raised");
            }
        }
        Ok(())
    }

    /// Drops the admitted events of each shard of which the topic has events that the log lacks,
    /// because the log was restored from a backup. The log is then read instead.
    ///
    /// Only the first and the last event of a shard are looked up: if the last event is in the log,
    /// so are all earlier events.
    pub(super) async fn drop_events_missing_from_log(
        &mut self,
        admission: &mut EventsByShard,
    ) -> anyhow::Result<()> {
        let places = admission.values().flat_map(|events| {
            let ends = [events.first(), events.last()].into_iter().flatten();
            ends.map(EventPlace::of)
        });
        let mut places: Vec<EventPlace> = places.collect();
        loop {
            let absent = match log::first_absent(&self.databases.log, &places).await {
                Err(error) if is_of_data(&error) => {
                    self.refuse_unreadable_places(&mut places, admission)
                        .await?;
                    continue;
                }
                absent => absent.context("cannot compare the topic with the log")?,
            };
            let Some(absent) = absent else {
                return Ok(());
            };
            let shard = absent.shard;
            places.retain(|place| place.shard != shard);
            let events = admission.remove(&shard).unwrap_or_default();
            let (event_id, position) = (absent.event_id, absent.position);
            report_foreign(shard, &format!("{event_id}, position {position}"));
            if let Some(assignment) = self.assignments.get_mut(&shard) {
                assignment.forget_progress(events.last().map_or(0, |event| event.position));
            }
        }
    }

    /// Looks at each place alone, and refuses the shards with an unreadable one. Each call leaves fewer
    /// places, or returns an error.
    async fn refuse_unreadable_places(
        &mut self,
        places: &mut Vec<EventPlace>,
        admission: &mut EventsByShard,
    ) -> anyhow::Result<()> {
        let mut readable = Vec::with_capacity(places.len());
        for place in places.iter().copied() {
            match log::first_absent(&self.databases.log, &[place]).await {
                Err(error) if is_of_data(&error) => {
                    self.refuse_unreadable(place.shard, place.position - 1, &error);
                    admission.remove(&place.shard);
                }
                seen => {
                    seen.context("cannot compare the topic with the log")?;
                    readable.push(place);
                }
            }
        }
        readable.retain(|place| admission.contains_key(&place.shard));
        *places = readable;
        Ok(())
    }

    /// Refuses a shard whose event after the position `after` cannot be read.
    fn refuse_unreadable(&mut self, shard: Shard, after: Position, error: &sqlx::Error) {
        if let Some(assignment) = self.assignments.get_mut(&shard) {
            let reason = error.to_string();
            assignment.refuse(
                shard,
                ShardRefusal::Unreadable {
                    shard,
                    after,
                    reason,
                },
            );
        }
    }

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
        for (shard, Chunk { events, is_end }) in self.read_chunks(&starts, limit).await? {
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

    /// Decodes the payloads of the admitted events. If an undecodable event differs from the
    /// log, the events of the shard are dropped, and read from the event store instead.
    pub(super) async fn decode_admitted(
        &mut self,
        admission: EventsByShard,
    ) -> anyhow::Result<BTreeMap<Shard, Vec<BatchEvent>>> {
        let mut decoded = BTreeMap::new();
        for (shard, events) in admission {
            let events: Vec<BatchEvent> = events.into_iter().map(BatchEvent::decode).collect();
            let poison: Vec<_> = events.iter().filter_map(BatchEvent::as_poison).collect();
            let is_trusted = poison.is_empty()
                || apply::is_in_log(&self.databases.log, shard, &poison)
                    .await
                    .context("cannot read the event store")?;
            if is_trusted {
                decoded.insert(shard, events);
                continue;
            }
            tracing::warn!(%shard, "the topic differs from the log: reading the log instead");
            let progress = self
                .progress(shard)
                .expect("a shard with admitted events has progress");
            let last = events.last().expect("an admitted shard has events");
            progress.extend_backfill(last.recorded().position);
        }
        Ok(decoded)
    }

    /// Reads a chunk for each shard with a projection that catches up. The chunks become separate
    /// batches, so that the other projections of the shard stay live.
    pub(super) async fn catch_up_batches(&mut self) -> anyhow::Result<Vec<ShardBatch>> {
        let assignments = self.assignments.values();
        let catching_up: Vec<Progress> = assignments
            .filter_map(|assignment| assignment.progress.as_ref()?.catching_up())
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
        let mut chunks = self.read_chunks(&starts, limit).await?;
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

    /// Reads up to `limit` events of each shard from the event store. If the next event of a shard cannot
    /// be read, refuses the shard, and returns no chunk of the shard.
    async fn read_chunks(
        &mut self,
        starts: &[ReadFrom],
        limit: usize,
    ) -> anyhow::Result<BTreeMap<Shard, Chunk>> {
        let rows_max = limit.try_into()?;
        let mut chunks: BTreeMap<Shard, Chunk> = BTreeMap::new();
        match log::read_after(&self.databases.log, starts, rows_max).await {
            Err(error) if is_of_data(&error) => {
                for start in starts {
                    let reading = log::read_readable_after(&self.databases.log, *start, rows_max);
                    match reading.await {
                        Err(error) if is_of_data(&error) => {
                            self.refuse_unreadable(start.shard, start.after, &error);
                        }
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
        for shard in chunks.keys() {
            if let Some(assignment) = self.assignments.get_mut(shard) {
                assignment.accept_events(*shard);
            }
        }
        Ok(chunks)
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

/// Counts and logs a record that the log lacks. The relay refuses to publish to such a topic, and
/// `relay status` names the remedy.
fn report_foreign(shard: Shard, record: &str) {
    counter!(RECORDS_FOREIGN_TOTAL, "shard" => shard.to_string()).increment(1);
    tracing::error!(
        %shard,
        error = record,
        "the topic has an event that the log lacks; reading the log instead (`command-api relay \
         status` names the remedy)"
    );
}

fn add(admission: &mut EventsByShard, shard: Shard, admitted: AdmittedEvents) {
    for (projection, count) in Projection::ALL.into_iter().zip(admitted.duplicates) {
        if count > 0 {
            counter!(DUPLICATES_DROPPED_TOTAL, "projection" => projection.name()).increment(count);
        }
    }
    if !admitted.events.is_empty() {
        admission.insert(shard, admitted.events);
    }
}
