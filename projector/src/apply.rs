//! The one transaction by which events become rows: checkpoints locked, rows written set by set,
//! checkpoints moved on, redirect caches told, all or nothing.

use std::collections::BTreeSet;

use linkledger_core::shard::{Position, Shard};
use sqlx::PgPool;

use crate::{
    checkpoint::{self, Advance},
    progress::Progress,
    projections::{DecodedEvent, Projection, Rows, redirects::FoldedSlugs},
};

/// Events of one shard that follow each other and the progress they start from.
#[derive(Debug)]
pub struct Run {
    /// What the checkpoints are expected to say.
    pub progress: Progress,
    /// In order; never empty.
    pub events: Vec<DecodedEvent>,
}

impl Run {
    /// Where the checkpoints stand afterwards.
    pub fn end(&self) -> Position {
        let last = self.events.last().expect("a run is never empty");
        last.recorded.position
    }

    /// What a projection lacks of it: all, or the later part.
    pub fn news_for(&self, projection: Projection) -> &[DecodedEvent] {
        let had = self.progress.checkpoint(projection).position;
        let start = self
            .events
            .partition_point(|it| it.recorded.position <= had);
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
        };
        (self, later)
    }
}

/// How a transaction ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is committed.
    Applied,
    /// Nothing was written: somebody else has moved these shards' checkpoints.
    Lost(BTreeSet<Shard>),
}

/// Applies the runs, which are of different shards, to all projections.
///
/// # Errors
/// When the database does not answer, or refuses a row. After an error it is unknown whether
/// the events were applied; the checkpoints know.
pub async fn apply(pool: &PgPool, runs: &[Run]) -> sqlx::Result<Outcome> {
    let advances: Vec<Advance> = runs
        .iter()
        .flat_map(|run| run.progress.advances(run.end()))
        .collect();
    let redirect_news = runs
        .iter()
        .flat_map(|run| run.news_for(Projection::Redirects));
    let slugs = FoldedSlugs::read(pool, redirect_news).await?;
    // Collected before the transaction begins: no lock is held while this process computes.
    let rows = rows_of(runs, &slugs);
    let mut tx = pool.begin().await?;
    let lost = checkpoint::lock_in_tx(&mut tx, &advances).await?;
    if !lost.is_empty() {
        tx.rollback().await?;
        return Ok(Outcome::Lost(lost));
    }
    rows.write_in_tx(&mut tx).await?;
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
    Ok(Outcome::Applied)
}

fn rows_of<'a>(runs: &'a [Run], slugs: &'a FoldedSlugs) -> Rows<'a> {
    let mut rows = Rows::new(slugs);
    for run in runs {
        for projection in Projection::ALL {
            let generation = run.progress.checkpoint(projection).generation;
            for event in run.news_for(projection) {
                rows.project(projection, generation, event);
            }
        }
    }
    rows
}
