//! How the projections are: what of the log each has in each shard, who looks after it and what
//! hinders it; and what else an operator looks at first: commands that run, the relay's backlog and
//! the oldest snapshot on the server.
//!
//! It is read by index in some milliseconds, whatever the tables hold, so that it may be asked for
//! each second.

mod checkpoints;
mod findings;
pub mod generations;
pub mod operations;
pub mod projection;
pub mod relay;
pub mod snapshot;
pub mod verification;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::log::{self, ReadFrom},
    timestamp,
};
use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;

use self::{
    checkpoints::StoredCheckpoint,
    operations::{FailedOperation, RunningOperation},
    projection::ProjectionStatus,
    relay::RelayStatus,
    snapshot::HeldSnapshots,
};
use crate::read_models::Projection;

/// How everything is, within some milliseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// When it was read.
    pub at: String,
    /// The epoch of the log.
    pub log_epoch: i32,
    /// All projections, by name.
    pub projections: Vec<ProjectionStatus>,
    /// Operators' commands that are at work.
    pub operations: Vec<RunningOperation>,
    /// Those that have failed and were not run again with success; forgotten after a day.
    pub failed_operations: Vec<FailedOperation>,
    /// How far publishing is.
    pub relay: RelayStatus,
    /// What keeps dead rows from being removed.
    pub snapshots: HeldSnapshots,
    /// What waits for an operator, a sentence each; nothing while all is well.
    pub findings: Vec<String>,
}

/// Reads it.
///
/// # Errors
/// When the database does not answer.
pub async fn collect(pool: &PgPool) -> anyhow::Result<Status> {
    let checkpoints = checkpoints::read(pool)
        .await
        .context("can't read the checkpoints")?;
    // After the checkpoints: heads only grow, so one that is beyond its head is so in truth.
    let end = log::end(pool)
        .await
        .context("can't read where the log ends")?;
    let ages_s = ages_s(pool, &checkpoints).await?;
    let generations = generations::read(pool, &end)
        .await
        .context("can't read which generations there are")?;
    let mut projections = Vec::new();
    for projection in Projection::ALL {
        let mut it = ProjectionStatus::of(projection, &checkpoints, &ages_s, &end);
        let own = generations
            .iter()
            .filter(|own| own.projection == it.projection);
        it.generations = own.cloned().collect();
        it.verification = verification::read(pool, projection)
            .await
            .context("can't read what was verified")?;
        projections.push(it);
    }
    let mut status = Status {
        at: timestamp::format(SystemClock.now()),
        log_epoch: end.epoch,
        projections,
        operations: operations::read(pool)
            .await
            .context("can't read which commands run")?,
        failed_operations: operations::read_failed(pool)
            .await
            .context("can't read which commands have failed")?,
        relay: relay::read(pool, &end).await?,
        snapshots: snapshot::read(pool)
            .await
            .context("can't read which snapshots are held")?,
        findings: Vec::new(),
    };
    status.findings = findings::of(&status);
    Ok(status)
}

/// How old the first event is that each of the checkpoints lacks, in seconds.
async fn ages_s(pool: &PgPool, checkpoints: &[StoredCheckpoint]) -> anyhow::Result<Vec<f64>> {
    let places: Vec<ReadFrom> = checkpoints
        .iter()
        .map(|it| ReadFrom {
            shard: it.shard,
            after: it.position,
        })
        .collect();
    ages_after_s(pool, &places).await
}

async fn ages_after_s(pool: &PgPool, places: &[ReadFrom]) -> anyhow::Result<Vec<f64>> {
    let recorded = log::recorded_after(pool, places)
        .await
        .context("can't read when events were recorded")?;
    let now = SystemClock.now();
    let age = |at: OffsetDateTime| f64::max((now - at).as_seconds_f64(), 0.0);
    Ok(recorded.into_iter().map(|at| at.map_or(0.0, age)).collect())
}

impl Status {
    /// What of it concerns one projection, and everything that concerns all.
    #[must_use]
    pub fn narrowed_to(mut self, projection: Projection) -> Self {
        let name = projection.name();
        self.projections.retain(|it| it.projection == name);
        self.operations.retain(|it| it.projection == name);
        self.failed_operations.retain(|it| it.projection == name);
        self.findings = findings::of(&self);
        self
    }
}
