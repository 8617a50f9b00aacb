//! Pause and resume of a projection.
//!
//! [`crate::pipeline::checkpoint::pause`] explains how a pause reaches every process.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{event_store::transaction::PoolTransaction, shard::SHARD_COUNT, timestamp};
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use crate::{
    operations::audit::{self, OperationOutcome},
    pipeline::{
        checkpoint::pause::{lock_in_tx, names, set_in_tx},
        retry::{self, Backoff},
    },
    read_models::Projection,
};

/// Longest wait for a batch or a repair. Postgres ends the transaction of a frozen process after one second
/// of a batch or seven of a repair (`idle_in_transaction_session_timeout`), or five of a statement
/// (`statement_timeout`).
const PATIENCE: Duration = Duration::from_secs(10);

/// Change of a projection by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseChange {
    /// The projection stays at its position.
    Pause,
    /// The projection continues.
    Resume,
}

impl PauseChange {
    /// Returns the name of the command, as typed.
    const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    const fn outcome(self) -> &'static str {
        match self {
            Self::Pause => "paused; its last batch is finished",
            Self::Resume => "resumed",
        }
    }
}

/// State of a projection after a pause or a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Paused {
    /// Projection of the state.
    pub projection: Projection,
    /// True if the command changed the state.
    #[serde(rename = "changed")]
    pub is_changed: bool,
    /// Start of the pause; `None` if not paused.
    #[serde(serialize_with = "timestamp::serialize")]
    pub paused_at: Option<OffsetDateTime>,
}

/// Returns the start of each projection's pause; `None` if a shard of the projection is
/// not paused.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn paused(
    pool: &PgPool,
    projections: &[Projection],
) -> sqlx::Result<Vec<(Projection, Option<OffsetDateTime>)>> {
    read(&mut *pool.acquire().await?, projections).await
}

/// Pauses or resumes the projections, and records the command if a projection changed. Returns after
/// the commit, when the last batches are finished.
///
/// # Errors
/// Returns an error if the database fails, or a batch does not end in time.
pub async fn change(
    pool: &PgPool,
    projections: &[Projection],
    change: PauseChange,
    operator: &str,
    reason: Option<&str>,
) -> anyhow::Result<Vec<Paused>> {
    let command = audit::OperatorCommand {
        name: change.name(),
        projections,
        subject: None,
        operator,
        reason,
    };
    let give_up_at = Instant::now() + PATIENCE;
    let mut backoff = Backoff::default();
    loop {
        let changed = try_change(pool, command, change).await;
        let changed = changed.with_context(|| format!("cannot {} the projection", change.name()));
        match changed {
            Err(error) if retry::passes_by_itself(&error) && Instant::now() < give_up_at => {
                sleep(backoff.next_delay()).await;
            }
            result => return result,
        }
    }
}

async fn try_change(
    pool: &PgPool,
    command: audit::OperatorCommand<'_>,
    change: PauseChange,
) -> sqlx::Result<Vec<Paused>> {
    let projections = command.projections;
    let mut tx = PoolTransaction::begin(pool).await?;
    lock_in_tx(&mut tx, projections).await?;
    let before = read(&mut tx, projections).await?;
    set_in_tx(&mut tx, projections, change == PauseChange::Pause).await?;
    let after = read(&mut tx, projections).await?;
    let states = before.into_iter().zip(after);
    let states = states.map(|((projection, before), (_, after))| Paused {
        projection,
        is_changed: before.is_some() != after.is_some(),
        paused_at: after,
    });
    let states: Vec<Paused> = states.collect();
    let changed = states.iter().filter(|it| it.is_changed);
    let changed: Vec<Projection> = changed.map(|it| it.projection).collect();
    if !changed.is_empty() {
        let command = audit::OperatorCommand {
            projections: &changed,
            ..command
        };
        audit::record_in_tx(&mut tx, &command, OperationOutcome::Done, change.outcome()).await?;
    }
    tx.commit().await?;
    Ok(states)
}

async fn read(
    session: &mut PgConnection,
    projections: &[Projection],
) -> sqlx::Result<Vec<(Projection, Option<OffsetDateTime>)>> {
    let rows = sqlx::query!(
        r#"
        SELECT projection, max(paused_at) AS paused_at, count(paused_at) AS "shards!"
        FROM read_model.checkpoints
        WHERE projection = ANY($1) AND role = 'live'
        GROUP BY projection
        "#,
        &names(projections) as &[&str]
    )
    .fetch_all(session)
    .await?;
    let paused_at = |projection: &Projection| {
        let row = rows.iter().find(|row| row.projection == projection.name());
        let row = row.filter(|row| row.shards == i64::from(SHARD_COUNT));
        (*projection, row.and_then(|row| row.paused_at))
    };
    Ok(projections.iter().map(paused_at).collect())
}
