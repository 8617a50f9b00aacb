//! Parking: an event that can't be applied stops its own account, and nobody else.
//!
//! The account is parked in the projection that can't apply the event; its events wait from there
//! on, by their places in the log, while the checkpoint moves on. Once the event can be applied,
//! the account is released: what has waited is applied in order. An operator may decide that the
//! event is left out for good: it is as if the log did not have it, for this projection.
//!
//! Rows of a shard change only under the lock of its checkpoint, and an account is parked only in
//! a transaction that moves it: whoever knows the checkpoint knows whether anybody can be parked.

pub mod listing;
pub mod release;
pub mod skipped;
pub mod table;

use std::collections::BTreeSet;

use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
};

use crate::{
    apply::Run,
    poison::{Poison, RunEvent},
    projections::{DecodedEvent, Projection},
};

/// Who is parked, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParkedAccount {
    /// The projection that goes on without the account.
    pub projection: Projection,
    /// The generation of its read model.
    pub generation: i32,
    /// The account's shard.
    pub shard: Shard,
    /// Whose events wait.
    pub account_id: AccountId,
}

/// The event that an account is parked for: the first of those that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Its place in the shard.
    pub position: Position,
    /// The stored type name.
    pub event_type: String,
    /// Why it can't be applied.
    pub poison: Poison,
}

/// A parked account, and why it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parking {
    /// Who.
    pub account: ParkedAccount,
    /// Why.
    pub cause: Cause,
}

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
