//! Table `read_model.operations`: one row for each command of an operator on a projection.
//!
//! A command that is one transaction is recorded in that transaction, finished. A long command is
//! recorded when it begins, and a second command on the same projection is refused until the first
//! one ends (unique index `operations_running_idx`).
//!
//! A long command proves that it is alive by an advisory lock of a session of its own, keyed by the
//! row. When the process dies, Postgres ends the session and releases the lock; the next command on
//! the projection marks the row as interrupted. Advisory locks of sessions need a session for the
//! whole run: a pooler in transaction mode would break them, and the doctor refuses such a pooler.
//!
//! The exclusion is a courtesy to operators: checkpoints prevent whatever must never happen twice.

pub mod report;
mod table;

use std::{fmt, future::Future, time::Duration};

use anyhow::{Context as _, bail};
use linkledger_core::{
    event_store::time_limit::{ANSWER_TIME_MAX, within},
    failure, timestamp,
};
use sqlx::{PgConnection, PgPool};
use tokio::time::{self, Instant};

pub use self::table::{RecordedCommand, recorded};
use crate::read_models::Projection;

/// Interval at which a running command checks its session and its rows.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that Postgres may take to notice the death of a process on a machine that is up.
const DEATH_NOTICE_MAX: Duration = Duration::from_secs(2);
/// Interval at which a new command looks for the end of the one before.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

tokio::task_local! {
    /// Rows of the long command that the task works for.
    static OPERATION_IDS: Vec<i64>;
}

/// A command as it is recorded.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// Its name, as it is typed.
    pub name: &'static str,
    /// What it changes; empty if that is not a projection as a whole.
    pub projections: &'a [Projection],
    /// What else it is about: an account, a generation.
    pub subject: Option<&'a str>,
    /// Who asks for it.
    pub operator: &'a str,
    /// Why.
    pub reason: Option<&'a str>,
}

/// How a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was asked.
    Done,
    /// It did not; the detail says why.
    Failed,
    /// It was ended from outside before it was through.
    Interrupted,
}

impl Outcome {
    /// The name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Somebody else changes the same projection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Collision {
    /// Which projection.
    pub projection: String,
    /// What is being done to it.
    pub command: String,
    /// By whom.
    pub operator: String,
    /// Since when, RFC 3339.
    pub since: String,
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            projection,
            command,
            operator,
            since,
        } = self;
        write!(
            f,
            "`{command} {projection}` by {operator} has been running since {since}; nothing was \
             changed: wait for its end and try again"
        )
    }
}

/// Another command has marked this one as interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this command lost its session with the database, and another command has taken its place; \
     run it again"
)]
pub struct CommandSuperseded;

/// Records a command that is over, in the transaction of its effect: a row for each projection, or
/// one.
///
/// # Errors
/// When the database does not answer.
pub async fn record_in_tx(
    tx: &mut PgConnection,
    command: &Command<'_>,
    outcome: Outcome,
    detail: &str,
) -> sqlx::Result<()> {
    table::insert_finished_in_tx(tx, command, outcome, detail).await
}

/// Runs `work` while no other long command works on the same projections, and records its outcome;
/// `describe` returns the outcome of each projection, with a text. SIGINT and SIGTERM end the
/// command.
///
/// `work` may be dropped between any two of its transactions.
///
/// # Errors
/// Returns [`Collision`] if another command works on one of the projections, [`CommandSuperseded`]
/// if another command has taken this one for dead, or the error of `work` or of the database.
pub async fn hold<T>(
    pool: &PgPool,
    command: &Command<'_>,
    work: impl Future<Output = anyhow::Result<T>>,
    describe: impl Fn(&T, Projection) -> (Outcome, String),
) -> anyhow::Result<T> {
    let mut session = session(pool).await.context("can't record the command")?;
    let ids = begin(&mut session, command).await?;
    let result = tokio::select! {
        // A process that was frozen checks its rows first.
        biased;
        error = keep(pool, &mut session, &ids) => Err(error),
        result = Box::pin(OPERATION_IDS.scope(ids.clone(), work)) => result,
        signal = interrupted() => {
            signal?;
            let detail = "ended by a signal".to_owned();
            finish(pool, &ids, command, |_| (Outcome::Interrupted, detail.clone())).await?;
            bail!("ended by a signal; what is done is kept, run the command again to go on");
        }
    };
    match result {
        Ok(value) => {
            finish(pool, &ids, command, |it| describe(&value, it)).await?;
            Ok(value)
        }
        Err(error) => {
            let detail = failure::text(&error);
            let failed = |_| (Outcome::Failed, detail.clone());
            if let Err(unrecorded) = finish(pool, &ids, command, failed).await {
                tracing::warn!(
                    error = format!("{unrecorded:#}"),
                    "the failure is not recorded"
                );
            }
            Err(error)
        }
    }
}

/// Ensures, until the end of the transaction, that no other command takes the place of the command
/// that the task works for. Work outside of a long command always passes.
///
/// # Errors
/// Returns [`CommandSuperseded`], or the error of the database.
pub async fn ensure_held_in_tx(tx: &mut PgConnection) -> anyhow::Result<()> {
    let Ok(ids) = OPERATION_IDS.try_with(Clone::clone) else {
        return Ok(());
    };
    let is_held = table::are_unfinished_in_tx(tx, &ids)
        .await
        .context("can't read the record of the command")?;
    if !is_held {
        bail!(CommandSuperseded);
    }
    Ok(())
}

/// Opens a session outside of the pool: dropping the session releases its advisory locks.
async fn session(pool: &PgPool) -> sqlx::Result<PgConnection> {
    Ok(pool.acquire().await?.detach())
}

/// Records that the command runs, unless another command runs. A process that died a moment ago may
/// be alive for Postgres still, and is waited for.
async fn begin(session: &mut PgConnection, command: &Command<'_>) -> anyhow::Result<Vec<i64>> {
    let give_up_at = Instant::now() + DEATH_NOTICE_MAX;
    loop {
        let begun = table::begin(session, command).await;
        if let Some(ids) = begun.context("can't record the command")? {
            return Ok(ids);
        }
        if Instant::now() >= give_up_at {
            break;
        }
        time::sleep(POLL_INTERVAL).await;
    }
    let running = table::unfinished(session, command.projections).await;
    let Some(other) = running.context("can't read which commands run")?.pop() else {
        bail!("another command on the same projections has ended just now; try again");
    };
    bail!(Collision {
        projection: other.projection.unwrap_or_default(),
        command: other.command,
        operator: other.operator,
        since: timestamp::format(other.started_at),
    })
}

/// Holds the advisory lock while the rows are those of a running command, and returns the reason
/// for the end. A lost session is replaced, unless another command has begun in between.
async fn keep(pool: &PgPool, lock: &mut PgConnection, ids: &[i64]) -> anyhow::Error {
    loop {
        time::sleep(CHECK_INTERVAL).await;
        let checked = within(ANSWER_TIME_MAX, table::are_unfinished_in_tx(lock, ids)).await;
        let is_held = match checked {
            Ok(is_held) => Ok(is_held),
            Err(error) => {
                tracing::debug!(%error, "the session of the command is lost; reconnecting");
                within(ANSWER_TIME_MAX, relock(pool, lock, ids)).await
            }
        };
        match is_held {
            Ok(true) => {}
            Ok(false) => return CommandSuperseded.into(),
            Err(error) => {
                let error = anyhow::Error::from(error);
                return error.context("can't keep the session of the command");
            }
        }
    }
}

/// Locks in a new session. Returns false if another command has marked the rows as interrupted.
async fn relock(pool: &PgPool, lock: &mut PgConnection, ids: &[i64]) -> sqlx::Result<bool> {
    *lock = session(pool).await?;
    table::lock(lock, ids).await?;
    table::are_unfinished_in_tx(lock, ids).await
}

async fn finish(
    pool: &PgPool,
    ids: &[i64],
    command: &Command<'_>,
    describe: impl Fn(Projection) -> (Outcome, String),
) -> anyhow::Result<()> {
    let ends: Vec<_> = command
        .projections
        .iter()
        .map(|it| {
            let (outcome, detail) = describe(*it);
            (*it, outcome, detail)
        })
        .collect();
    table::finish(pool, ids, &ends)
        .await
        .context("can't record how the command ended")
}

#[cfg(unix)]
async fn interrupted() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate()).context("can't listen for signals")?;
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended.context("can't listen for signals"),
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn interrupted() -> anyhow::Result<()> {
    tokio::signal::ctrl_c()
        .await
        .context("can't listen for signals")
}
