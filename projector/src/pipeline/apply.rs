//! Applies batches of events to the read models, in one transaction.
//!
//! The transaction locks and advances the checkpoints, writes the rows of all events, parks accounts
//! with an event that cannot be applied, and appends the changes that redirect caches follow. Either
//! all of that is committed or nothing.

mod isolate;
mod plan;

use std::{collections::BTreeSet, sync::Arc};

use linkledger_core::{
    projection::Projection,
    shard::{Position, Shard},
};
use linkledger_event_store::transaction::PoolTransaction;
use sqlx::{PgConnection, PgPool};

pub(crate) use self::plan::log_parked;
pub use self::{isolate::isolate, plan::ApplyPlan};
use crate::{
    pipeline::{
        checkpoint::{self, Checkpoint, CheckpointAdvance, Role},
        decode::BatchEvent,
        parking::{ParkedAccount, Parking, table},
    },
    read_models::{Creation, Rows, skipped::Skipped},
};

/// Consecutive events of one shard, applied together, and the checkpoints that they continue.
#[derive(Debug, Clone)]
pub struct ShardBatch {
    /// Shard of the events.
    pub shard: Shard,
    /// Projections to apply the events to, each with the checkpoint that the transaction expects to find.
    pub checkpoints: Vec<(Projection, Checkpoint)>,
    /// Events in the order of their positions; never empty.
    pub events: Vec<Arc<BatchEvent>>,
    /// Accounts of `events` that are parked already.
    pub parked: BTreeSet<ParkedAccount>,
    /// Events that an operator has skipped.
    pub skipped: Skipped,
}

impl ShardBatch {
    /// Returns the last event.
    pub fn last(&self) -> &BatchEvent {
        self.events.last().expect("a batch is never empty")
    }

    /// Returns the position of the last event, to which the checkpoints advance.
    pub fn end(&self) -> Position {
        self.last().recorded().position
    }

    /// Returns the events above a checkpoint.
    pub fn events_after(&self, checkpoint: Checkpoint) -> &[Arc<BatchEvent>] {
        let is_applied = |event: &Arc<BatchEvent>| event.recorded().position <= checkpoint.position;
        &self.events[self.events.partition_point(is_applied)..]
    }

    /// Splits a batch of at least two events into its earlier and its later half.
    #[must_use]
    pub fn split_in_half(mut self) -> (Self, Self) {
        let later = self.events.split_off(self.events.len() / 2);
        let mut checkpoints = self.checkpoints.clone();
        for (_, checkpoint) in &mut checkpoints {
            checkpoint.position = checkpoint.position.max(self.end());
        }
        let later = Self {
            checkpoints,
            events: later,
            ..self.clone()
        };
        (self, later)
    }

    fn advances(&self) -> impl Iterator<Item = CheckpointAdvance> {
        let (shard, to) = (self.shard, self.end());
        let behind = self
            .checkpoints
            .iter()
            .filter(move |(_, from)| from.position < to);
        behind.map(move |(projection, from)| CheckpointAdvance {
            projection: *projection,
            shard,
            from: *from,
            to,
        })
    }
}

/// A change by another session, because of which a transaction was rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyConflict {
    /// The checkpoints of these shards are not at the expected position, generation and epoch.
    CheckpointMoved(BTreeSet<Shard>),
    /// An account of the batch that was parked has been released. The checkpoints are unchanged.
    AccountReleased,
    /// An operator has paused one of the projections. The checkpoints are unchanged.
    ProjectionPaused,
}

/// Applies batches of different followers: generations with this role. Returns the accounts that were parked; or a
/// conflict, and writes nothing, if another session has changed the state that the batches were read from.
///
/// # Errors
/// Returns an error if the database fails, or refuses a row. After an error the outcome
/// of the commit is unknown: read the checkpoints again.
pub async fn apply(
    pool: &PgPool,
    batches: &[ShardBatch],
    role: Role,
) -> sqlx::Result<Result<Vec<Parking>, ApplyConflict>> {
    let plan = ApplyPlan::of(batches);
    // Projected before the transaction begins: no lock is held while this process computes.
    let rows = Rows::of(&plan.applied);
    let advances = batches.iter().flat_map(ShardBatch::advances);
    let prepared = PreparedRows {
        role,
        advances: advances.collect(),
        rows,
        plan,
    };
    let written = match prepared.write(pool, Creation::Insert).await {
        // The rows exist already if an operator has set a checkpoint back, or if the log holds an
        // event twice. The later write counts.
        Err(error) if is_duplicate(&error) => prepared.write(pool, Creation::Put).await?,
        written => written?,
    };
    Ok(written.map(|()| prepared.plan.parked))
}

/// The rows and the checkpoints that one transaction writes.
struct PreparedRows<'a> {
    role: Role,
    advances: Vec<CheckpointAdvance>,
    rows: Rows<'a>,
    plan: ApplyPlan<'a>,
}

impl PreparedRows<'_> {
    async fn write(
        &self,
        pool: &PgPool,
        creation: Creation,
    ) -> sqlx::Result<Result<(), ApplyConflict>> {
        let mut tx = PoolTransaction::begin(pool).await?;
        let written = self.write_in_tx(&mut tx, creation).await?;
        match written {
            Ok(()) => tx.commit().await?,
            Err(_) => tx.rollback().await?,
        }
        Ok(written)
    }

    /// Writes in the order in which every transaction takes its locks: checkpoints, rows, parked
    /// accounts, then the counter of the redirect changes.
    async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<Result<(), ApplyConflict>> {
        let role = self.role;
        let advanced = checkpoint::advance_in_tx(tx, &self.advances, role).await?;
        if advanced.is_err() {
            return Ok(advanced);
        }
        self.rows.write_in_tx(tx, creation).await?;
        if !table::park_in_tx(tx, &self.plan.parked, &self.plan.waiting).await? {
            return Ok(Err(ApplyConflict::AccountReleased));
        }
        // Redirect caches serve the live generation only.
        if role == Role::Live {
            self.rows.redirect_changes().append_in_tx(tx).await?;
        }
        Ok(Ok(()))
    }
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}
