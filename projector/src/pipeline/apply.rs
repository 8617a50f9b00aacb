//! The one transaction by which events become rows: checkpoints locked, rows written set by set,
//! accounts parked whose events can't be applied, checkpoints moved on, redirect caches told, all
//! or nothing.

mod effect;
mod isolate;
mod plan;

use std::collections::BTreeSet;

use linkledger_core::shard::{Position, Shard};
use sqlx::{PgConnection, PgPool};

pub use self::{
    effect::Effect,
    isolate::{is_in_log, isolate},
    plan::Plan,
};
use crate::{
    pipeline::{
        checkpoint::{self, Advance, Lock, Role},
        decode::RunEvent,
        parking::{ParkedAccount, table},
        progress::{Line, Progress},
    },
    read_models::{
        Creation, DecodedEvent, Projection, Rows, redirects::FoldedSlugs, skipped::Skipped,
    },
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
    /// Which of them are left out.
    pub skipped: Skipped,
}

impl Run {
    /// Where the checkpoints stand afterwards.
    pub fn end(&self) -> Position {
        let last = self.events.last().expect("a run is never empty");
        last.recorded().position
    }

    /// What a projection lacks of it: all, or the later part; nothing if it does not go along.
    pub fn news_for(&self, projection: Projection) -> &[RunEvent] {
        if self.progress.line(projection) != Line::Joint {
            return &[];
        }
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
            skipped: self.skipped.clone(),
        };
        (self, later)
    }

    fn advances(&self, projections: &[Projection]) -> impl Iterator<Item = Advance> {
        let advances = self.progress.advances(self.end());
        advances.filter(|advance| projections.contains(&advance.projection))
    }
}

/// Whose rows are written, and under whose checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// In these read models.
    pub projections: &'a [Projection],
    /// What the generation is for that the runs' checkpoints speak of.
    pub role: Role,
}

impl Target<'static> {
    /// What is served, of all projections.
    pub const LIVE: Self = Self {
        projections: &Projection::ALL,
        role: Role::Live,
    };
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
    /// Nothing was written: an operator has paused one of the projections. The checkpoints are
    /// where they were.
    Paused,
}

/// Applies the runs, which are of different shards, to that target.
///
/// # Errors
/// When the database does not answer, or refuses a row. After an error it is unknown whether
/// the events were applied; the checkpoints know.
pub async fn apply(pool: &PgPool, runs: &[Run], target: Target<'_>) -> sqlx::Result<Outcome> {
    let plan = Plan::of(runs, target.projections);
    let slugs = FoldedSlugs::read(pool, redirect_news(&plan)).await?;
    // Collected before the transaction begins: no lock is held while this process computes.
    let batch = Batch::of(runs, plan, &slugs, target);
    let written = match batch.write(pool, Creation::Insert).await {
        // A checkpoint that was set back by hand meets rows that are there; or the log has
        // something twice, of which the later one counts.
        Err(error) if is_duplicate(&error) => batch.write(pool, Creation::Put).await?,
        written => written?,
    };
    Ok(match written {
        Written::All => Outcome::Applied(Effect::of(batch.plan)),
        Written::Lost(shards) => Outcome::Lost(shards),
        Written::Released => Outcome::Released,
        Written::Paused => Outcome::Paused,
    })
}

/// Applies the runs in the caller's transaction. Unless all is [`Written`] it must be rolled back.
///
/// # Errors
/// When the database does not answer, or refuses a row.
pub async fn apply_in_tx(
    pool: &PgPool,
    tx: &mut PgConnection,
    runs: &[Run],
    target: Target<'_>,
) -> sqlx::Result<Written> {
    let plan = Plan::of(runs, target.projections);
    let slugs = FoldedSlugs::read(pool, redirect_news(&plan)).await?;
    let batch = Batch::of(runs, plan, &slugs, target);
    batch.write_in_tx(tx, Creation::Put).await
}

/// What a transaction has come to before its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// All rows, and the checkpoints.
    All,
    /// Somebody else has moved these shards' checkpoints.
    Lost(BTreeSet<Shard>),
    /// An account that was parked has been released meanwhile.
    Released,
    /// An operator has paused one of the projections.
    Paused,
}

/// All that some runs lead to.
struct Batch<'a> {
    target: Target<'a>,
    advances: Vec<Advance>,
    plan: Plan<'a>,
    rows: Rows<'a>,
}

impl<'a> Batch<'a> {
    fn of(runs: &'a [Run], plan: Plan<'a>, slugs: &'a FoldedSlugs, target: Target<'a>) -> Self {
        let mut rows = Rows::new(slugs);
        for (projection, generation, event) in &plan.applied {
            rows.project(*projection, *generation, event);
        }
        let advances = runs.iter().flat_map(|run| run.advances(target.projections));
        Self {
            target,
            advances: advances.collect(),
            plan,
            rows,
        }
    }

    async fn write(&self, pool: &PgPool, creation: Creation) -> sqlx::Result<Written> {
        let mut tx = pool.begin().await?;
        let written = self.write_in_tx(&mut tx, creation).await?;
        match written {
            Written::All => tx.commit().await?,
            Written::Lost(_) | Written::Released | Written::Paused => tx.rollback().await?,
        }
        Ok(written)
    }

    async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<Written> {
        let Target { role, .. } = self.target;
        match checkpoint::lock_in_tx(tx, &self.advances, role).await? {
            Lock::Held => {}
            Lock::Lost(shards) => return Ok(Written::Lost(shards)),
            Lock::Paused => return Ok(Written::Paused),
        }
        self.rows.write_in_tx(tx, creation).await?;
        if !table::park_in_tx(tx, &self.plan.parked, &self.plan.waiting).await? {
            return Ok(Written::Released);
        }
        let moved = checkpoint::advance_in_tx(tx, &self.advances, role).await?;
        if moved != self.advances.len() as u64 {
            let shards = self.advances.iter().map(|advance| advance.shard);
            return Ok(Written::Lost(shards.collect()));
        }
        match role {
            Role::Live => self.rows.redirect_changes().append_in_tx(tx).await?,
            // Nobody reads what they are of.
            Role::Building | Role::Standby => {}
        }
        Ok(Written::All)
    }
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

fn redirect_news<'a>(plan: &Plan<'a>) -> impl Iterator<Item = &'a DecodedEvent> {
    let applied = plan.applied.iter();
    applied.filter_map(|(projection, _, event)| {
        (*projection == Projection::Redirects).then_some(*event)
    })
}
