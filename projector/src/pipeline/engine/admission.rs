//! Which events a cycle applies: of those delivered what is next in line, and chunks of the event
//! store where the topic does not reach.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::RecordedEvent,
    event_store::log::{self, EventPlace, ReadFrom},
    metrics::{DUPLICATES_DROPPED_TOTAL, GAPS_REPAIRED_TOTAL, RECORDS_FOREIGN_TOTAL},
    shard::Shard,
};
use metrics::counter;

use super::{CYCLE_EVENTS_MAX, Engine};
use crate::{
    pipeline::{
        apply::Run,
        decode::RunEvent,
        progress::{Admitted, LaterEpoch, Progress},
    },
    read_models::Projection,
};

/// Events of each shard that follow each other.
pub(super) type Admission = BTreeMap<Shard, Vec<RecordedEvent>>;

impl Engine {
    /// What is next in line of the deliveries of each shard.
    pub(super) async fn admit_delivered(
        &mut self,
        delivered: BTreeMap<Shard, Vec<PublishedEvent>>,
    ) -> anyhow::Result<Admission> {
        let mut admission = Admission::new();
        let mut later = Vec::new();
        for (shard, events) in delivered {
            // Records of a shard that was taken away may still have been in the queue.
            let Some(tenure) = self.tenures.get_mut(&shard) else {
                continue;
            };
            let Some(progress) = &mut tenure.progress else {
                continue;
            };
            let seen = events.iter().map(|it| it.event.position).max();
            let admitted = match progress.admit_delivered(events) {
                Ok(admitted) => admitted,
                Err(later_epoch) => {
                    tenure.forget(seen.unwrap_or_default());
                    later.push((shard, later_epoch));
                    continue;
                }
            };
            if let Some(hole) = &admitted.hole {
                counter!(GAPS_REPAIRED_TOTAL, "shard" => shard.to_string()).increment(1);
                let (from, to) = (hole.start(), hole.end());
                tracing::warn!(%shard, from, to, "the topic omits events: reading the event store");
            }
            add(&mut admission, shard, admitted);
        }
        self.note_later(&later).await?;
        Ok(admission)
    }

    /// Says of records of a later epoch whether the log has come to it too.
    async fn note_later(&self, records: &[(Shard, LaterEpoch)]) -> anyhow::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let epoch = log::epoch(&self.pool)
            .await
            .context("can't read the epoch of the log")?;
        for (shard, record) in records {
            if record.found > epoch {
                note_foreign(*shard, &record.to_string());
            } else {
                tracing::info!(%shard, epoch, "the epoch of the log was raised");
            }
        }
        Ok(())
    }

    /// Leaves out the shards of which the topic has events that the log has not, because it was
    /// restored without them: what is in the log is then read there. Of a run that ends with an
    /// event of the log, all events are.
    pub(super) async fn drop_what_the_log_lacks(
        &mut self,
        admission: &mut Admission,
    ) -> anyhow::Result<()> {
        let places = admission.values().flat_map(|events| {
            let ends = [events.first(), events.last()].into_iter().flatten();
            ends.map(EventPlace::of)
        });
        let mut places: Vec<EventPlace> = places.collect();
        while let Some(absent) = log::first_absent(&self.pool, &places)
            .await
            .context("can't compare the topic with the log")?
        {
            let shard = absent.shard;
            places.retain(|place| place.shard != shard);
            let events = admission.remove(&shard).unwrap_or_default();
            let (event_id, position) = (absent.event_id, absent.position);
            let what = format!("{event_id}, position {position}");
            note_foreign(shard, &what);
            if let Some(tenure) = self.tenures.get_mut(&shard) {
                tenure.forget(events.last().map_or(0, |it| it.position));
            }
        }
        Ok(())
    }

    /// A chunk of what is owed, for shards of which nothing else is admitted.
    pub(super) async fn admit_owed(&mut self, admission: &mut Admission) -> anyhow::Result<()> {
        let owing = self.owing(admission);
        if owing.is_empty() {
            return Ok(());
        }
        let delivered: usize = admission.values().map(Vec::len).sum();
        let limit = (CYCLE_EVENTS_MAX.saturating_sub(delivered) / owing.len()).max(1);
        let events = log::read_after(&self.pool, &owing, limit.try_into()?)
            .await
            .context("can't read the event store")?;
        let mut read: Admission = owing.iter().map(|from| (from.shard, Vec::new())).collect();
        for event in events {
            read.entry(event.shard).or_default().push(event);
        }
        for (shard, events) in read {
            let progress = self.progress(shard).expect("it owes events");
            let is_end = events.len() < limit;
            let admitted = progress.admit_read(events, is_end);
            let hole = &admitted.hole;
            ensure!(
                hole.is_none(),
                "the event store lacks {hole:?} of shard {shard}"
            );
            add(admission, shard, admitted);
        }
        Ok(())
    }

    /// A chunk for each shard in which somebody catches up without the others, who go on meanwhile:
    /// as runs of its own.
    pub(super) async fn runs_behind(&self) -> anyhow::Result<Vec<Run>> {
        let tenures = self.tenures.values();
        let behind: Vec<Progress> = tenures
            .filter_map(|tenure| tenure.progress.as_ref()?.behind())
            .collect();
        let places = behind.iter().filter_map(|progress| {
            let (shard, after) = (progress.shard(), progress.floor()?);
            Some(ReadFrom { shard, after })
        });
        let places: Vec<ReadFrom> = places.collect();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let limit = (CYCLE_EVENTS_MAX / places.len()).max(1);
        let events = log::read_after(&self.pool, &places, limit.try_into()?)
            .await
            .context("can't read the event store")?;
        let mut read = BTreeMap::<Shard, Vec<RunEvent>>::new();
        for event in events {
            let progress = behind.iter().find(|it| it.shard() == event.shard);
            if progress.is_some_and(|it| event.position <= it.owed()) {
                let events = read.entry(event.shard).or_default();
                events.push(RunEvent::read(event));
            }
        }
        let runs = self.runs(read, |shard| {
            behind.iter().find(|it| it.shard() == shard).cloned()
        });
        runs.await
    }

    fn owing(&self, admission: &Admission) -> Vec<ReadFrom> {
        let tenures = self.tenures.iter();
        let others = tenures.filter(|(shard, _)| !admission.contains_key(shard));
        let owing = others.filter_map(|(shard, tenure)| {
            let progress = tenure.progress.as_ref()?;
            let (shard, after) = (*shard, progress.floor()?);
            progress.is_owed().then_some(ReadFrom { shard, after })
        });
        owing.collect()
    }
}

/// The relay refuses to publish to such a topic, and says what mends it.
fn note_foreign(shard: Shard, what: &str) {
    counter!(RECORDS_FOREIGN_TOTAL, "shard" => shard.to_string()).increment(1);
    tracing::error!(
        %shard,
        error = what,
        "the topic has an event that the log has not; the log is read instead (`command-api relay \
         status` says what mends it)"
    );
}

fn add(admission: &mut Admission, shard: Shard, admitted: Admitted) {
    for (projection, count) in Projection::ALL.into_iter().zip(admitted.duplicates) {
        if count > 0 {
            counter!(DUPLICATES_DROPPED_TOTAL, "projection" => projection.name()).increment(count);
        }
    }
    if !admitted.events.is_empty() {
        admission.insert(shard, admitted.events);
    }
}
