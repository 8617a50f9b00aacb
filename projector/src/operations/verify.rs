//! Verification: do the rows of a generation say what the log says?
//!
//! It is computed in SQL, and shares nothing with the projections: neither their code, nor the way
//! they go. Of each link and account the last event says what the row must be, and what the log
//! can't have led to is looked for in the tables. Nothing waits for it and it waits for nobody:
//! each step is a snapshot of far below a second, with the checkpoint in it, so that rows which
//! change meanwhile are compared with what they must be at that moment.
//!
//! A parked account is compared up to the first event that waits; events that an operator has
//! skipped count as if they had never happened.

mod bucket;
mod conservation;
mod credit_rows;
mod findings;
mod link_rows;
pub mod outcome;
mod repair;
mod stopped_accounts;
mod superfluous;

use std::cmp::Reverse;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use linkledger_core::shard::Shard;
use serde::Serialize;
use sqlx::PgPool;

use self::bucket::Pass;
pub use self::findings::{Finding, Findings, NAMED_MAX};
use crate::read_models::{
    Projection,
    snapshot::checkpoints,
    tables::{Table, Target},
};

/// Steps at once, each in a session of its own: more would take from the services what they need.
pub const SESSIONS: u32 = 2;

/// What was compared, and what was found.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// The read model.
    pub projection: &'static str,
    /// Whichever it is.
    pub generation: i32,
    /// Events of the log that the rows were recomputed from.
    pub events: u64,
    /// Rows that the log wants.
    pub rows_wanted: u64,
    /// Rows of the tables; as many, if nothing is wrong and nothing has changed meanwhile.
    pub rows_found: u64,
    /// What is wrong.
    #[serde(flatten)]
    pub findings: Findings,
}

/// The generation of a projection that is served.
///
/// # Errors
/// When the database does not answer.
pub async fn served(pool: &PgPool, projection: Projection) -> anyhow::Result<Target> {
    let generation = sqlx::query_scalar!(
        "SELECT active_generation FROM read_model.projections WHERE projection = $1",
        projection.name()
    )
    .fetch_one(pool)
    .await
    .context("can't read which generation is served")?;
    Ok(Target {
        projection,
        generation,
    })
}

/// How many events a verification that begins now compares at least.
///
/// # Errors
/// When the database does not answer.
pub async fn event_count(pool: &PgPool, target: Target) -> anyhow::Result<u64> {
    let positions = checkpoints(pool, target).await?;
    Ok(positions.iter().sum::<i64>().unsigned_abs())
}

/// Compares the rows of one generation, whatever its role, with the log, each shard up to its
/// checkpoint. `on_progress` hears how many more events are compared, up to [`event_count`] or some
/// more.
///
/// The pool should have [`SESSIONS`] sessions; of the kinds that are made for services
/// (`SessionKind::Writer`, `Reader`), because the statements count on their plans by key. The
/// tables need their primary keys: a generation that is loaded without them is verified afterwards.
///
/// # Errors
/// When the database does not answer, there is no such generation, its checkpoints are of another
/// epoch or beyond the log, or the log lacks events.
pub async fn generation(
    pool: &PgPool,
    target: Target,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<Verified> {
    let positions = checkpoints(pool, target).await?;
    let mut shards: Vec<Shard> = Shard::all().collect();
    // The longest first, so that none is left alone.
    shards.sort_by_key(|shard| Reverse(positions[shard.index()]));
    let mut steps: Vec<BoxFuture<'_, anyhow::Result<Pass>>> = Vec::new();
    for shard in shards {
        let step = bucket::shard(pool, target, shard, on_progress);
        steps.push(Box::pin(async move {
            step.await.with_context(|| format!("shard {shard}"))
        }));
    }
    for table in Table::of(target.projection) {
        steps.push(Box::pin(superfluous::table(pool, target, *table)));
    }
    if target.projection == Projection::Credits {
        steps.push(Box::pin(conservation::ledgers(pool, target)));
    }
    let passes: Vec<Pass> = stream::iter(steps)
        .buffer_unordered(SESSIONS as usize)
        .try_collect()
        .await
        .with_context(|| format!("can't verify `{}`", target.projection))?;
    let mut verified = Verified {
        projection: target.projection.name(),
        generation: target.generation,
        events: 0,
        rows_wanted: 0,
        rows_found: 0,
        findings: Findings::default(),
    };
    for pass in passes {
        verified.events += pass.events;
        verified.rows_wanted += pass.rows_wanted;
        verified.rows_found += pass.rows_found;
        verified.findings.append(pass.findings);
    }
    Ok(verified)
}

/// Most rounds of a repair: rows may be found anew that changed while they were looked for.
const REPAIR_ROUNDS_MAX: u32 = 3;

/// What a repair has come to.
#[derive(Debug, Serialize)]
pub struct Repaired {
    /// Rows that were written or removed.
    pub rows: u64,
    /// What is wrong afterwards.
    pub left: Verified,
}

/// Writes what a verification has found as the log wants it, and verifies again.
///
/// # Errors
/// As [`generation`]; or when the lock of a checkpoint is not had.
pub async fn repair(
    pool: &PgPool,
    target: Target,
    found: &Verified,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<Repaired> {
    let mut written = repair::repair(pool, target, &found.findings).await?;
    let mut rows = written;
    let mut left = generation(pool, target, on_progress).await?;
    for _ in 1..REPAIR_ROUNDS_MAX {
        if left.findings.is_empty() || written == 0 {
            break;
        }
        written = repair::repair(pool, target, &left.findings).await?;
        rows += written;
        left = generation(pool, target, on_progress).await?;
    }
    Ok(Repaired { rows, left })
}
