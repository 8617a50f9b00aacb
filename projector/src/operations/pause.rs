//! Pause and resume of a projection, or of the counting of clicks.
//!
//! [`crate::pipeline::checkpoint::pause`] explains how a pause reaches every process; the positions of clicks work alike.

use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use linkledger_core::timestamp;
use linkledger_event_store::transaction::PoolTransaction;
use serde::Serialize;
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use crate::{
    clicks::position,
    operations::audit::{self, OperationOutcome, OperatorCommand},
    pipeline::{
        checkpoint::pause::{lock_in_tx, set_in_tx},
        retry::{self, Backoff},
    },
    read_models::Projection,
};

/// Longest wait for a batch or a repair. Postgres ends the transaction of a frozen process after one second
/// of a batch or seven of a repair (`idle_in_transaction_session_timeout`), or five of a statement
/// (`statement_timeout`).
const PATIENCE: Duration = Duration::from_secs(10);

linkledger_core::named_enum! {
    /// Target of a pause: a projection, or the counting of clicks.
    #[derive(Serialize, ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub enum PauseTarget {
        /// Balance of an account and the entries of its ledger.
        Credits = "credits",
        /// List of an account's links, and a link by its id.
        Links = "links",
        /// Target of a short link, by its slug.
        Redirects = "redirects",
        /// Figures of clicks.
        Clicks = "clicks",
    }
}

impl From<Projection> for PauseTarget {
    fn from(projection: Projection) -> Self {
        match projection {
            Projection::Credits => Self::Credits,
            Projection::Links => Self::Links,
            Projection::Redirects => Self::Redirects,
        }
    }
}

linkledger_core::named_enum! {
    /// Change by an operator, by the name of the command.
    pub enum PauseChange {
        /// The target stays at its position.
        Pause = "pause",
        /// The target continues.
        Resume = "resume",
    }
}

impl PauseChange {
    const fn outcome(self) -> &'static str {
        match self {
            Self::Pause => "paused; its last batch is finished",
            Self::Resume => "resumed",
        }
    }
}

/// State of a target after a pause or a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Paused {
    /// Target of the state.
    pub target: PauseTarget,
    /// True if the command changed the state.
    pub is_changed: bool,
    /// Start of the pause; `None` if not paused.
    #[serde(serialize_with = "timestamp::serialize")]
    pub paused_at: Option<OffsetDateTime>,
}

/// Returns the start of each target's pause; `None` if a shard or a partition of the target is not paused.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn paused(
    executor: impl PgExecutor<'_>,
    targets: &[PauseTarget],
) -> sqlx::Result<Vec<(PauseTarget, Option<OffsetDateTime>)>> {
    let rows = sqlx::query!(
        r#"
        SELECT projection AS "target!", CASE WHEN count(paused_at) = count(*) THEN min(paused_at) END AS paused_at
        FROM read_model.checkpoints
        WHERE role = 'live'
        GROUP BY projection
        UNION ALL
        SELECT 'clicks', CASE WHEN count(paused_at) = count(*) THEN min(paused_at) END
        FROM clicks.positions
        "#
    )
    .fetch_all(executor)
    .await?;
    let paused_at = |target: &PauseTarget| {
        let row = rows.iter().find(|row| row.target == target.name());
        (*target, row.and_then(|row| row.paused_at))
    };
    Ok(targets.iter().map(paused_at).collect())
}

/// Pauses or resumes the targets, and records the command if a target changed. Returns after the commit, when the last
/// batches are finished.
///
/// # Errors
/// Returns an error if the database fails, or a batch or a recount does not end in time.
pub async fn change(
    pool: &PgPool,
    targets: &[PauseTarget],
    change: PauseChange,
    operator: &str,
    reason: Option<&str>,
) -> anyhow::Result<Vec<Paused>> {
    let command = OperatorCommand {
        name: change.name(),
        projections: &[],
        subject: None,
        operator,
        reason,
    };
    let give_up_at = Instant::now() + PATIENCE;
    let mut backoff = Backoff::default();
    loop {
        let changed = try_change(pool, targets, command, change).await;
        let names: Vec<_> = targets.iter().map(|it| it.name()).collect();
        let hint = if targets.contains(&PauseTarget::Clicks) {
            " (does a recount run?)"
        } else {
            ""
        };
        let failure = || format!("cannot {} {}{hint}", change.name(), names.join(", "));
        match changed.with_context(failure) {
            Err(error) if retry::passes_by_itself(&error) && Instant::now() < give_up_at => {
                sleep(backoff.next_delay()).await;
            }
            result => return result,
        }
    }
}

async fn try_change(
    pool: &PgPool,
    targets: &[PauseTarget],
    command: OperatorCommand<'_>,
    change: PauseChange,
) -> sqlx::Result<Vec<Paused>> {
    let projections = projections(targets);
    let mut tx = PoolTransaction::begin(pool).await?;
    if targets.contains(&PauseTarget::Clicks) {
        // First, since a recount may hold them for long: the projections do not wait with this transaction.
        position::lock_all_in_tx(&mut tx).await?;
    }
    lock_in_tx(&mut tx, &projections).await?;
    let before = paused(&mut *tx, targets).await?;
    let is_paused = change == PauseChange::Pause;
    set_in_tx(&mut tx, &projections, is_paused).await?;
    if targets.contains(&PauseTarget::Clicks) {
        position::set_paused_in_tx(&mut tx, is_paused).await?;
    }
    let after = paused(&mut *tx, targets).await?;
    let states = before.into_iter().zip(after);
    let states = states.map(|((target, before), (_, after))| Paused {
        target,
        is_changed: before.is_some() != after.is_some(),
        paused_at: after,
    });
    let states: Vec<Paused> = states.collect();
    let changed = states.iter().filter(|it| it.is_changed);
    let changed: Vec<PauseTarget> = changed.map(|it| it.target).collect();
    record_in_tx(&mut tx, &changed, command, change).await?;
    tx.commit().await?;
    Ok(states)
}

/// Records the command for each changed target.
async fn record_in_tx(
    tx: &mut PgConnection,
    changed: &[PauseTarget],
    command: OperatorCommand<'_>,
    change: PauseChange,
) -> sqlx::Result<()> {
    let (done, detail) = (OperationOutcome::Done, change.outcome());
    let projections = projections(changed);
    if !projections.is_empty() {
        let command = OperatorCommand {
            projections: &projections,
            ..command
        };
        audit::record_in_tx(tx, &command, done, detail).await?;
    }
    if changed.contains(&PauseTarget::Clicks) {
        let command = OperatorCommand {
            subject: Some(PauseTarget::Clicks.name()),
            ..command
        };
        audit::record_in_tx(tx, &command, done, detail).await?;
    }
    Ok(())
}

fn projections(targets: &[PauseTarget]) -> Vec<Projection> {
    let named = targets.iter().map(|it| Projection::of_name(it.name()));
    named.flatten().collect()
}
