//! Reports a committed transaction to metrics and log.

use std::collections::BTreeMap;

use linkledger_core::{
    metrics::{PARKED_EVENTS_TOTAL, PROJECTION_EVENTS_APPLIED_TOTAL},
    projection::{PerProjection, Projection},
};
use metrics::counter;

use crate::pipeline::{apply::ApplyPlan, parking::Parking};

/// Counts of a committed transaction, and the accounts that the transaction parked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ApplySummary {
    /// Number of events that each projection applied.
    pub applied: PerProjection<u64>,
    /// Accounts that the transaction parked.
    pub parked: Vec<Parking>,
    /// Number of events that were put behind the first waiting event of a parked account.
    pub waiting_behind: u64,
}

impl ApplySummary {
    pub(super) fn of(plan: ApplyPlan<'_>) -> Self {
        let mut applied = PerProjection::default();
        for (projection, ..) in &plan.applied {
            applied[projection.index()] += 1;
        }
        Self {
            applied,
            waiting_behind: (plan.waiting.len() - plan.parked.len()) as u64,
            parked: plan.parked,
        }
    }

    /// Increments the metrics and logs the parked accounts.
    pub fn report(&self) {
        for (projection, applied) in Projection::ALL.into_iter().zip(self.applied) {
            counter!(PROJECTION_EVENTS_APPLIED_TOTAL, "projection" => projection.name())
                .increment(applied);
        }
        if self.waiting_behind > 0 {
            counter!(PARKED_EVENTS_TOTAL, "reason" => "behind").increment(self.waiting_behind);
        }
        for Parking { cause, .. } in &self.parked {
            let reason = cause.poison.reason.name();
            counter!(PARKED_EVENTS_TOTAL, "reason" => reason).increment(1);
        }
        self.log_parked();
    }

    /// Logs one line per account, even if several projections cannot apply the event.
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
}
