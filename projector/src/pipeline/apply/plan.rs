//! Decides which events of a batch are applied, and which accounts are parked.

use std::collections::BTreeSet;

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
                    let cause = ParkingCause {
                        position: recorded.position,
                        event_type: recorded.event_type.clone(),
                        poison: poison.clone(),
                    };
                    self.parked.push(Parking { account, cause });
                }
                BatchEvent::Decoded(_) | BatchEvent::Poison(..) => {}
            }
            self.waiting.push((account, recorded.position));
        }
    }
}

#[cfg(test)]
mod tests;
