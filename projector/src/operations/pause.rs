//! Pause and resume of a projection, or of the aggregation of clicks.
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
use utoipa::ToSchema;

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
    /// Follower that can be paused: a projection, or the aggregation of clicks.
    #[derive(Serialize, ToSchema, ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub enum FollowerName {
        /// Balance of an account and the entries of its ledger.
        Credits = "credits",
        /// List of an account's links, and a link by its id.
        Links = "links",
        /// Target of a short link, by its slug.
        Redirects = "redirects",
        /// Statistics of clicks.
        Clicks = "clicks",
    }
}

impl From<Projection> for FollowerName {
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
        /// The follower stays at its position.
        Pause = "pause",
        /// The follower continues.
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

/// State of a follower after a pause or a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Follower)]
pub struct Paused {
    /// Name of the follower.
    pub follower: FollowerName,
    /// True if the command changed the state.
    pub is_changed: bool,
    /// Start of the pause; null if not paused.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "timestamp::serialize")]
    pub paused_at: Option<OffsetDateTime>,
}

/// Returns the start of each follower's pause; `None` if a shard or a partition of the follower is not paused.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn paused(
    executor: impl PgExecutor<'_>,
    followers: &[FollowerName],
) -> sqlx::Result<Vec<(FollowerName, Option<OffsetDateTime>)>> {
    let rows = sqlx::query!(
        r#"
        SELECT projection AS "follower!", CASE WHEN count(paused_at) = count(*) THEN min(paused_at) END AS paused_at
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
    let paused_at = |follower: &FollowerName| {
        let row = rows.iter().find(|row| row.follower == follower.name());
        (*follower, row.and_then(|row| row.paused_at))
    };
    Ok(followers.iter().map(paused_at).collect())
}

/// Pauses or resumes the followers, and records the command if a follower changed. Returns after the commit, when the last
/// batches are finished.
///
/// # Errors
/// Returns an error if the database fails, or a batch or a recount does not end in time.
pub async fn change(
    pool: &PgPool,
    followers: &[FollowerName],
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
        let changed = try_change(pool, followers, command, change).await;
        let names: Vec<_> = followers.iter().map(|it| it.name()).collect();
        let hint = if followers.contains(&FollowerName::Clicks) {
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
    followers: &[FollowerName],
    command: OperatorCommand<'_>,
    change: PauseChange,
) -> sqlx::Result<Vec<Paused>> {
    let projections = projections(followers);
    let mut tx = PoolTransaction::begin(pool).await?;
    if followers.contains(&FollowerName::Clicks) {
        // First, since a recount may hold them for long: the projections do not wait with this transaction.
        position::lock_all_in_tx(&mut tx).await?;
    }
    lock_in_tx(&mut tx, &projections).await?;
    let before = paused(&mut *tx, followers).await?;
    let is_paused = change == PauseChange::Pause;
    set_in_tx(&mut tx, &projections, is_paused).await?;
    if followers.contains(&FollowerName::Clicks) {
        position::set_paused_in_tx(&mut tx, is_paused).await?;
    }
    let after = paused(&mut *tx, followers).await?;
    let states = before.into_iter().zip(after);
    let states = states.map(|((follower, before), (_, after))| Paused {
        follower,
        is_changed: before.is_some() != after.is_some(),
        paused_at: after,
    });
    let states: Vec<Paused> = states.collect();
    let changed = states.iter().filter(|it| it.is_changed);
    let changed: Vec<FollowerName> = changed.map(|it| it.follower).collect();
    record_in_tx(&mut tx, &changed, command, change).await?;
    tx.commit().await?;
    Ok(states)
}

/// Records the command for each changed follower.
async fn record_in_tx(
    tx: &mut PgConnection,
    changed: &[FollowerName],
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
    if changed.contains(&FollowerName::Clicks) {
        let command = OperatorCommand {
            subject: Some(FollowerName::Clicks.name()),
            ..command
        };
        audit::record_in_tx(tx, &command, done, detail).await?;
    }
    Ok(())
}

fn projections(followers: &[FollowerName]) -> Vec<Projection> {
    let named = followers.iter().map(|it| Projection::of_name(it.name()));
    named.flatten().collect()
}
