//! Pausing a projection, and letting it go on.
//!
//! The pause stands in the projection's live checkpoints, which every writer of its rows holds
//! locked until it has committed: once a pause is committed, the last batch is finished and no
//! other can be written, not even by a process that stood still meanwhile.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::shard::SHARD_COUNT;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use crate::{
    operations::audit::{self, Outcome},
    pipeline::retry::{self, Backoff},
    read_models::Projection,
};

/// How long a batch is waited for: that of a process that stands still is ended by Postgres, after
/// a second (`idle_in_transaction_session_timeout`) or five (`statement_timeout`).
const PATIENCE: Duration = Duration::from_secs(10);

/// What an operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// That the projection stays where it is.
    Pause,
    /// That it goes on.
    Resume,
}

impl Wish {
    /// The command, as it is typed.
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

/// How a projection is afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paused {
    /// Which.
    pub projection: Projection,
    /// Whether it was different before.
    pub is_changed: bool,
    /// Since when it has been paused; `None` if it moves.
    pub paused_at: Option<OffsetDateTime>,
}

/// Since when the projections have been paused; `None` of those that move, in at least one shard.
///
/// # Errors
/// When the database does not answer.
pub async fn paused(
    pool: &PgPool,
    projections: &[Projection],
) -> sqlx::Result<Vec<(Projection, Option<OffsetDateTime>)>> {
    read(&mut *pool.acquire().await?, projections).await
}

/// Pauses the projections or lets them go on, and records it; returns when that is committed, and
/// so once their last batches are finished.
///
/// # Errors
/// When the database does not answer, or a batch does not end in time.
pub async fn change(
    pool: &PgPool,
    projections: &[Projection],
    wish: Wish,
    operator: &str,
    reason: Option<&str>,
) -> anyhow::Result<Vec<Paused>> {
    let command = audit::Command {
        name: wish.name(),
        projections,
        subject: None,
        operator,
        reason,
    };
    let give_up_at = Instant::now() + PATIENCE;
    let mut backoff = Backoff::default();
    loop {
        let changed = try_change(pool, command, wish).await;
        let changed = changed.with_context(|| format!("can't {} the projection", wish.name()));
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
    command: audit::Command<'_>,
    wish: Wish,
) -> sqlx::Result<Vec<Paused>> {
    let projections = command.projections;
    let mut tx = pool.begin().await?;
    lock_in_tx(&mut tx, projections).await?;
    let before = read(&mut tx, projections).await?;
    set_in_tx(&mut tx, projections, wish).await?;
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
        let command = audit::Command {
            projections: &changed,
            ..command
        };
        audit::record_in_tx(&mut tx, &command, Outcome::Done, wish.outcome()).await?;
    }
    tx.commit().await?;
    Ok(states)
}

/// Waits for the batches under way, and begins before the next ones.
async fn lock_in_tx(tx: &mut PgConnection, projections: &[Projection]) -> sqlx::Result<()> {
    sqlx::query!(
        "
        SELECT FROM read_model.checkpoints
        WHERE projection = ANY($1) AND role = 'live'
        ORDER BY projection, generation, shard
        FOR UPDATE
        ",
        &names(projections) as &[&str]
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn set_in_tx(
    tx: &mut PgConnection,
    projections: &[Projection],
    wish: Wish,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE read_model.checkpoints
        SET paused_at = CASE WHEN $2 THEN statement_timestamp() END
        WHERE projection = ANY($1) AND role = 'live' AND (paused_at IS NOT NULL) <> $2
        ",
        &names(projections) as &[&str],
        wish == Wish::Pause
    )
    .execute(tx)
    .await?;
    Ok(())
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

fn names(projections: &[Projection]) -> Vec<&'static str> {
    projections.iter().map(|it| it.name()).collect()
}
