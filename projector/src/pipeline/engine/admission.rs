//! Selects the events that a cycle applies among the delivered ones.

use std::collections::BTreeMap;

use anyhow::Context as _;
use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::RecordedEvent,
    event_store::{
        log::{self, EventPlace},
        log_meta,
    },
    metrics::{DUPLICATES_DROPPED_TOTAL, GAPS_REPAIRED_TOTAL, RECORDS_FOREIGN_TOTAL},
    projection::Projection,
    shard::{Position, Shard},
};
use metrics::counter;

use super::{
    Engine,
    shard_refusal::{ShardRefusal, unreadable_event},
};
use crate::pipeline::progress::{AdmittedEvents, LaterEpoch};

/// Consecutive events of each shard.
pub(super) type EventsByShard = BTreeMap<Shard, Vec<RecordedEvent>>;

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
            let presence = log::compare(&self.databases.log, &places)
                .await
                .context("cannot compare the topic with the log")?;
            for (
                EventPlace {
                    shard, position, ..
                },
                error,
            ) in presence.unreadable
            {
                self.refuse_unreadable(shard, position - 1, &error);
                admission.remove(&shard);
            }
            if let Some(absent) = presence.first_absent {
                let shard = absent.shard;
                let events = admission.remove(&shard).unwrap_or_default();
                let (event_id, position) = (absent.event_id, absent.position);
                report_foreign(shard, &format!("{event_id}, position {position}"));
                if let Some(assignment) = self.assignments.get_mut(&shard) {
                    assignment.forget_progress(events.last().map_or(0, |event| event.position));
                }
            }
            let is_settled = presence.first_absent.is_none();
            places.retain(|place| admission.contains_key(&place.shard));
            if is_settled {
                return Ok(());
            }
        }
    }

    /// Refuses a shard whose event after the position `after` cannot be read.
    pub(super) fn refuse_unreadable(&mut self, shard: Shard, after: Position, error: &sqlx::Error) {
        if let Some(assignment) = self.assignments.get_mut(&shard) {
            let description = unreadable_event(shard, after, error);
            assignment.refuse(shard, ShardRefusal::Unreadable { after, description });
        }
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

pub(super) fn add(admission: &mut EventsByShard, shard: Shard, admitted: AdmittedEvents) {
    for (projection, count) in Projection::ALL.into_iter().zip(admitted.duplicates) {
        if count > 0 {
            counter!(DUPLICATES_DROPPED_TOTAL, "projection" => projection.name()).increment(count);
        }
    }
    if !admitted.events.is_empty() {
        admission.insert(shard, admitted.events);
    }
}
