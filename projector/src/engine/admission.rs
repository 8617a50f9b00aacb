//! Which events a cycle applies: of those delivered what is next in line, and chunks of the event
//! store where the topic does not reach.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::RecordedEvent,
    event_store::log::{self, ReadFrom},
    metrics::{DUPLICATES_DROPPED_TOTAL, GAPS_REPAIRED_TOTAL},
    shard::Shard,
};
use metrics::counter;

use super::{CYCLE_EVENTS_MAX, Engine};
use crate::{progress::Admitted, projections::Projection};

/// Events of each shard that follow each other.
pub(super) type Admission = BTreeMap<Shard, Vec<RecordedEvent>>;

impl Engine {
    /// What is next in line of the deliveries of each shard.
    pub(super) fn admit_delivered(
        &mut self,
        delivered: BTreeMap<Shard, Vec<PublishedEvent>>,
    ) -> anyhow::Result<Admission> {
        let mut admission = Admission::new();
        for (shard, events) in delivered {
            // Records of a shard that was taken away may still have been in the queue.
            let Some(progress) = self.progress(shard) else {
                continue;
            };
            let admitted = progress.admit_delivered(events)?;
            if let Some(hole) = &admitted.hole {
                counter!(GAPS_REPAIRED_TOTAL, "shard" => shard.to_string()).increment(1);
                let (from, to) = (hole.start(), hole.end());
                tracing::warn!(%shard, from, to, "the topic omits events: reading the event store");
            }
            add(&mut admission, shard, admitted);
        }
        Ok(admission)
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

    fn owing(&self, admission: &Admission) -> Vec<ReadFrom> {
        let tenures = self.tenures.iter();
        let others = tenures.filter(|(shard, _)| !admission.contains_key(shard));
        let owing = others.filter_map(|(shard, tenure)| {
            let progress = tenure.progress.as_ref()?;
            progress.is_owed().then(|| ReadFrom {
                shard: *shard,
                after: progress.floor(),
            })
        });
        owing.collect()
    }
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
