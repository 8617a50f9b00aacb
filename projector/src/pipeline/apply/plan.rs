//! Decides which events of some runs are applied, and which accounts are parked.

use std::collections::BTreeSet;

use linkledger_core::shard::Position;

use super::Run;
use crate::{
    pipeline::{
        decode::RunEvent,
        parking::{Cause, ParkedAccount, Parking},
    },
    read_models::{DecodedEvent, Projection},
};

/// What becomes of the events of some runs. Pure: no I/O.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// What each projection applies, with its generation; in order within a shard.
    pub applied: Vec<(Projection, i32, &'a DecodedEvent)>,
    /// Accounts that are parked with it.
    pub parked: Vec<Parking>,
    /// Places of events that wait, those that accounts are parked for among them.
    pub waiting: Vec<(ParkedAccount, Position)>,
}

impl<'a> Plan<'a> {
    /// The plan for these projections.
    pub fn of(runs: &'a [Run], projections: &[Projection]) -> Self {
        let mut plan = Self::default();
        for run in runs {
            for projection in projections {
                plan.add(run, *projection);
            }
        }
        plan
    }

    fn add(&mut self, run: &'a Run, projection: Projection) {
        let generation = run.progress.checkpoint(projection).generation;
        let mut newly_parked = BTreeSet::new();
        for event in run.news_for(projection) {
            let recorded = event.recorded();
            if run.skipped.contains(projection, recorded) {
                continue;
            }
            let account = ParkedAccount {
                projection,
                generation,
                shard: recorded.shard,
                account_id: recorded.account_id,
            };
            let is_parked = run.parked.contains(&account) || newly_parked.contains(&account);
            match event {
                RunEvent::Decoded(event) if !is_parked => {
                    self.applied.push((projection, generation, event));
                    continue;
                }
                RunEvent::Poison(recorded, poison) if !is_parked => {
                    newly_parked.insert(account);
                    let cause = Cause {
                        position: recorded.position,
                        event_type: recorded.event_type.clone(),
                        poison: poison.clone(),
                    };
                    self.parked.push(Parking { account, cause });
                }
                RunEvent::Decoded(_) | RunEvent::Poison(..) => {}
            }
            self.waiting.push((account, recorded.position));
        }
    }
}

#[cfg(test)]
mod tests;
