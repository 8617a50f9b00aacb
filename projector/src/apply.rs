//! The one transaction by which events become rows: checkpoints locked, rows written set by set,
//! accounts parked whose events can't be applied, checkpoints moved on, redirect caches told, all
//! or nothing.

use std::collections::{BTreeMap, BTreeSet};

use linkledger_core::{
    metrics::{PARKED_EVENTS_TOTAL, PROJECTION_EVENTS_APPLIED_TOTAL},
    shard::{Position, Shard},
};
use metrics::counter;
use sqlx::PgPool;

use crate::{
    checkpoint::{self, Advance},
    parking::{ParkedAccount, Parking, Plan, table},
    poison::RunEvent,
    progress::Progress,
    projections::{DecodedEvent, PerProjection, Projection, Rows, redirects::FoldedSlugs},
};

/// Events of one shard that follow each other and the progress they start from.
#[derive(Debug, Clone)]
pub struct Run {
    /// What the checkpoints are expected to say.
    pub progress: Progress,
    /// In order; never empty.
    pub events: Vec<RunEvent>,
    /// Which of their accounts are parked already.
    pub parked: BTreeSet<ParkedAccount>,
}

impl Run {
    /// Where the checkpoints stand afterwards.
    pub fn end(&self) -> Position {
        let last = self.events.last().expect("a run is never empty");
        last.recorded().position
    }

    /// What a projection lacks of it: all, or the later part.
    pub fn news_for(&self, projection: Projection) -> &[RunEvent] {
        let had = self.progress.checkpoint(projection).position;
        let start = self
            .events
            .partition_point(|it| it.recorded().position <= had);
        &self.events[start..]
    }

    /// The earlier and the later half, of at least two events.
    #[must_use]
    pub fn halves(mut self) -> (Self, Self) {
        let later = self.events.split_off(self.events.len() / 2);
        let mut progress = self.progress.clone();
        progress.advance(self.end());
        let later = Self {
            progress,
            events: later,
            parked: self.parked.clone(),
        };
        (self, later)
    }

    fn advances(&self, projections: &[Projection]) -> impl Iterator<Item = Advance> {
        let advances = self.progress.advances(self.end());
        advances.filter(|advance| projections.contains(&advance.projection))
    }
}

/// How a transaction ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is committed.
    Applied(Effect),
    /// Nothing was written: somebody else has moved these shards' checkpoints.
    Lost(BTreeSet<Shard>),
    /// Nothing was written: an account that was parked has been released meanwhile. The
    /// checkpoints are what they were.
    Released,
}

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
    fn of(plan: Plan<'_>) -> Self {
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

/// Applies the runs, which are of different shards, to these projections.
///
/// # Errors
/// When the database does not answer, or refuses a row. After an error it is unknown whether
/// the events were applied; the checkpoints know.
pub async fn apply(
    pool: &PgPool,
    runs: &[Run],
    projections: &[Projection],
) -> sqlx::Result<Outcome> {
    let advances: Vec<Advance> = runs
        .iter()
        .flat_map(|run| run.advances(projections))
        .collect();
    let plan = Plan::of(runs, projections);
    let slugs = FoldedSlugs::read(pool, redirect_news(&plan)).await?;
    // Collected before the transaction begins: no lock is held while this process computes.
    let mut rows = Rows::new(&slugs);
    for (projection, generation, event) in &plan.applied {
        rows.project(*projection, *generation, event);
    }
    let mut tx = pool.begin().await?;
    let lost = checkpoint::lock_in_tx(&mut tx, &advances).await?;
    if !lost.is_empty() {
        tx.rollback().await?;
        return Ok(Outcome::Lost(lost));
    }
    rows.write_in_tx(&mut tx).await?;
    if !table::park_in_tx(&mut tx, &plan).await? {
        tx.rollback().await?;
        return Ok(Outcome::Released);
    }
    let moved = checkpoint::advance_in_tx(&mut tx, &advances).await?;
    if moved != advances.len() as u64 {
        tx.rollback().await?;
        return Ok(Outcome::Lost(
            runs.iter().map(|run| run.progress.shard()).collect(),
        ));
    }
    // Of live checkpoints only, as all that is locked above: nobody reads what others write.
    rows.redirect_changes().append_in_tx(&mut tx).await?;
    tx.commit().await?;
    Ok(Outcome::Applied(Effect::of(plan)))
}

fn redirect_news<'a>(plan: &Plan<'a>) -> impl Iterator<Item = &'a DecodedEvent> {
    let applied = plan.applied.iter();
    applied.filter_map(|(projection, _, event)| {
        (*projection == Projection::Redirects).then_some(*event)
    })
}
