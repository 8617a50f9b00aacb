//! What a transaction has done, and how metrics and log are told of it.

use std::collections::BTreeMap;

use linkledger_core::metrics::{PARKED_EVENTS_TOTAL, PROJECTION_EVENTS_APPLIED_TOTAL};
use metrics::counter;

use crate::{
    pipeline::{apply::Plan, parking::Parking},
    read_models::{PerProjection, Projection},
};

/// What a transaction has done.
#[derive(Debug, PartialEq, Eq)]
pub struct Effect {
    /// How many events each projection has applied.
    pub applied: PerProjection<u64>,
    /// Accounts that were parked.
    pub parked: Vec<Parking>,
    /// How many events wait behind those that accounts are parked for.
    pub behind: u64,
}

impl Effect {
    pub(super) fn of(plan: Plan<'_>) -> Self {
        let mut applied = PerProjection::default();
        for (projection, ..) in &plan.applied {
            applied[projection.index()] += 1;
        }
        Self {
            applied,
            behind: (plan.waiting.len() - plan.parked.len()) as u64,
            parked: plan.parked,
        }
    }

    /// Tells metrics and log of it.
    pub fn report(&self) {
        for (projection, applied) in Projection::ALL.into_iter().zip(self.applied) {
            counter!(PROJECTION_EVENTS_APPLIED_TOTAL, "projection" => projection.name())
                .increment(applied);
        }
        if self.behind > 0 {
            counter!(PARKED_EVENTS_TOTAL, "reason" => "behind").increment(self.behind);
        }
        for Parking { cause, .. } in &self.parked {
            let reason = cause.poison.reason.name();
            counter!(PARKED_EVENTS_TOTAL, "reason" => reason).increment(1);
        }
        self.log_parked();
    }

    /// One line for each account, whatever number of projections can't apply the event.
    fn log_parked(&self) {
        let mut by_account: BTreeMap<_, Vec<&Parking>> = BTreeMap::new();
        for parking in &self.parked {
            let account_id = parking.account.account_id;
            by_account.entry(account_id).or_default().push(parking);
        }
        for (account_id, parkings) in by_account {
            let Parking { account, cause } = parkings[0];
            let projections: Vec<_> = parkings
                .iter()
                .map(|it| it.account.projection.name())
                .collect();
            tracing::error!(
                %account_id,
                shard = %account.shard,
                position = cause.position,
                event_type = cause.event_type,
                reason = cause.poison.reason.name(),
                projections = projections.join(","),
                "an event can't be applied: the account is parked, its events wait until it is \
                 released (`projector parked list`)"
            );
        }
    }
}
