//! Verification: compares the rows of a generation with the rows that the log expects.
//!
//! The expected rows are computed in SQL from the events, without the code of the projections. The last
//! event of a link or account determines the row; orphans, which no event explains, are searched in
//! the tables. A verification blocks nothing: each step is a snapshot of far below a second with the
//! checkpoint in it, so that rows that change meanwhile are compared with the log up to that checkpoint.
//! The log only grows, so it needs no snapshot, and may be on another server.
//!
//! A parked account is compared up to its first waiting event. Skipped events count as absent.

mod comparison;
mod exceptions;
mod findings;
mod orphans;
pub mod outcome;
mod repair;
mod row_keys;
mod shard_pass;
mod snapshot;
pub mod statements;
mod step_size;
pub mod subject;

use std::cmp::Reverse;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use linkledger_core::shard::Shard;
use linkledger_service::databases::Databases;
use serde::Serialize;
use sqlx::PgPool;

pub use self::{
    findings::{ComparedColumn, ComparedRow, FindingKind, Findings, NAMED_MAX, VerifyFinding},
    snapshot::{GenerationTarget, LogBucket},
};
use self::{snapshot::checkpoints, subject::VerifiedSubject};
use crate::{
    operations::rebuild::generation,
    pipeline::retry::retried,
    read_models::{Projection, tables},
};

/// Steps at once: more would slow down the services.
const STEPS_AT_ONCE: u32 = 2;

/// Sessions that a verification needs: each step holds one with a snapshot of the read tables, and reads
/// the log in another one.
pub const SESSIONS: u32 = 2 * STEPS_AT_ONCE;

/// Result of a verification.
#[derive(Debug, Serialize)]
pub struct VerificationReport {
    /// Name of the read model.
    pub projection: &'static str,
    /// Number of the generation.
    pub generation: i32,
    /// Number of compared events.
    pub events: u64,
    /// Number of rows that the log expects.
    pub rows_expected: u64,
    /// Number of rows of the tables; equal to `rows_expected` if nothing is wrong and no row has
    /// changed meanwhile.
    pub rows_found: u64,
    /// Wrong rows.
    #[serde(flatten)]
    pub findings: Findings,
}

impl VerificationReport {
    /// Returns a report without events.
    fn of(target: GenerationTarget) -> Self {
        Self {
            projection: target.projection.name(),
            generation: target.generation,
            events: 0,
            rows_expected: 0,
            rows_found: 0,
            findings: Findings::default(),
        }
    }

    /// Adds the report of a part of the generation.
    fn append(&mut self, part: Self) {
        self.events += part.events;
        self.rows_expected += part.rows_expected;
        self.rows_found += part.rows_found;
        self.findings.append(part.findings);
    }
}

/// Returns the served generation of a projection.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn served(pool: &PgPool, projection: Projection) -> anyhow::Result<GenerationTarget> {
    let generation = generation::active(pool, projection)
        .await
        .context("cannot read which generation is served")?;
    Ok(GenerationTarget {
        projection,
        generation,
    })
}

/// Returns the least number of events that a verification beginning now compares.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn event_count(pool: &PgPool, target: GenerationTarget) -> anyhow::Result<u64> {
    let positions = retried(|| checkpoints(pool, target)).await?;
    Ok(positions.iter().sum::<i64>().unsigned_abs())
}

/// Compares the rows of a generation, served or not, with the log, each shard up to its checkpoint.
/// Calls `on_progress` with the number of further compared events, in total [`event_count`] or a few
/// more.
///
/// A pool that serves log and read tables needs [`SESSIONS`] sessions; they should be of a kind for services (`SessionKind::Writer`,
/// `Reader`), because the statements rely on their plans by key.
///
/// # Errors
/// Returns an error if there is no such generation, if its checkpoints are of another epoch or beyond
/// the log, if the log lacks events, or if the database fails.
pub async fn verify_generation(
    databases: &Databases,
    target: GenerationTarget,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<VerificationReport> {
    let positions = retried(|| checkpoints(&databases.read, target)).await?;
    let mut shards: Vec<Shard> = Shard::all().collect();
    // The longest shard first: the sessions finish at about the same time.
    shards.sort_by_key(|shard| Reverse(positions[shard.index()]));
    let mut steps: Vec<BoxFuture<'_, anyhow::Result<VerificationReport>>> = Vec::new();
    for shard in shards {
        let step = shard_pass::verify_shard(databases, target, shard, on_progress);
        steps.push(Box::pin(async move {
            step.await.with_context(|| format!("shard {shard}"))
        }));
    }
    for table in tables(target.projection) {
        steps.push(Box::pin(orphans::search(databases, target, table)));
    }
    let parts: Vec<VerificationReport> = stream::iter(steps)
        .buffer_unordered(STEPS_AT_ONCE as usize)
        .try_collect()
        .await
        .with_context(|| format!("cannot verify `{}`", target.projection))?;
    let mut report = VerificationReport::of(target);
    for part in parts {
        report.append(part);
    }
    Ok(report)
}

/// Most rounds of a repair: rows that change during a verification may be found wrong once more.
const REPAIR_ROUNDS_MAX: u32 = 3;

/// Result of a repair.
#[derive(Debug, Serialize)]
pub struct RepairReport {
    /// Number of rows written or deleted.
    pub rows: u64,
    /// Verification after the repair.
    pub left: VerificationReport,
}

/// Repairs the findings of a verification of the whole generation, or of one link or account, and verifies
/// the same again.
///
/// # Errors
/// Returns an error as [`verify_generation`] does, or if a checkpoint stays locked.
pub async fn repair(
    databases: &Databases,
    target: GenerationTarget,
    subject: Option<&VerifiedSubject>,
    found: &VerificationReport,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<RepairReport> {
    let verify = async || match subject {
        None => verify_generation(databases, target, on_progress).await,
        Some(subject) => {
            let report = subject::verify(databases, target, subject).await?;
            Ok(report.found)
        }
    };
    let mut written = repair::repair_findings(databases, target, &found.findings).await?;
    let mut rows = written;
    let mut left = verify().await?;
    for _ in 1..REPAIR_ROUNDS_MAX {
        if left.findings.is_empty() || written == 0 {
            break;
        }
        written = repair::repair_findings(databases, target, &left.findings).await?;
        rows += written;
        left = verify().await?;
    }
    Ok(RepairReport { rows, left })
}
