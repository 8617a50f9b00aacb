//! Decides which events of a batch are applied, and which accounts are parked.

use std::collections::{BTreeMap, BTreeSet};

use linkledger_core::{projection::Projection, shard::Position};

use super::ShardBatch;
use crate::{
    pipeline::{
        checkpoint::Checkpoint,
        decode::BatchEvent,
        parking::{ParkedAccount, Parking, ParkingCause},
    },
    read_models::DecodedEvent,
};

/// Decisions on the events of some batches. Building a plan does no I/O.
#[derive(Debug, Default)]
pub struct ApplyPlan<'a> {
    /// Events to apply, each with its projection and generation; in order within a shard.
    pub applied: Vec<(Projection, i32, &'a DecodedEvent)>,
    /// Accounts to park.
    pub parked: Vec<Parking>,
    /// Positions of events that wait for the release of their account. The events that accounts
    /// are parked for are among them.
    pub waiting: Vec<(ParkedAccount, Position)>,
}

impl<'a> ApplyPlan<'a> {
    /// Plans the batches.
    pub fn of(batches: &'a [ShardBatch]) -> Self {
        let mut plan = Self::default();
        for batch in batches {
            for (projection, checkpoint) in &batch.checkpoints {
                plan.add(batch, *projection, *checkpoint);
            }
        }
        plan
    }

    /// Adds the events of one batch for one projection. A skipped event is dropped; a poison event
    /// parks its account; every event of a parked account waits; all other events are applied.
    fn add(&mut self, batch: &'a ShardBatch, projection: Projection, checkpoint: Checkpoint) {
        let generation = checkpoint.generation;
        let mut newly_parked = BTreeSet::new();
        for event in batch.events_after(checkpoint) {
            let recorded = event.recorded();
            if batch.skipped.contains(projection, recorded) {
                continue;
            }
            let account = ParkedAccount {
                projection,
                generation,
                shard: recorded.shard,
                account_id: recorded.account_id,
            };
            let is_parked = batch.parked.contains(&account) || newly_parked.contains(&account);
            match &**event {
                BatchEvent::Decoded(event) if !is_parked => {
                    self.applied.push((projection, generation, event));
                    continue;
                }
                BatchEvent::Poison(recorded, poison) if !is_parked => {
                    newly_parked.insert(account);
                    let cause = ParkingCause::of(recorded, poison.clone());
                    self.parked.push(Parking { account, cause });
                }
                BatchEvent::Decoded(_) | BatchEvent::Poison(..) => {}
            }
            self.waiting.push((account, recorded.position));
        }
    }
}

/// Logs one line per parked account, even if several projections cannot apply the event.
pub(crate) fn log_parked(parked: &[Parking]) {
    let mut by_account: BTreeMap<_, Vec<&Parking>> = BTreeMap::new();
    for parking in parked {
        let account_id = parking.account.account_id;
        by_account.entry(account_id).or_default().push(parking);
    }
    for (account_id, parkings) in by_account {
        let Parking { account, cause } = parkings[0];
        let projections: Vec<_> = parkings
            .iter()
            .map(|parking| parking.account.projection.name())
            .collect();
        tracing::error!(
            %account_id,
            shard = %account.shard,
            position = cause.position,
            event_type = cause.event_type,
            reason = cause.poison.reason.name(),
            projections = projections.join(","),
            "an event cannot be applied: the account is parked, its events wait until it is \
             released (`projector parked list`)"
        );
    }
}

#[cfg(test)]
mod tests;
