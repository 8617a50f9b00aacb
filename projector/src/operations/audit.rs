//! Table `read_model.operations`: one row for each command of an operator on a projection.
//!
//! A command that is one transaction is recorded in that transaction, finished. A long command is
//! recorded when it begins, and a second command on the same projection is refused until the first
//! one ends (unique index `operations_running_idx`).
//!
//! A long command proves that it is alive by an advisory lock of a session of its own, keyed by the
//! row. When the process dies, Postgres ends the session and releases the lock; the next command on
//! the projection marks the row as interrupted. Postgres ends the session of a frozen process after
//! five seconds without a statement; the process checks its row when it wakes. Advisory locks of
//! sessions need a session for the whole run: a pooler in transaction mode would break them, and the
//! long commands refuse such a pooler.
//!
//! The exclusion is a courtesy to operators: checkpoints prevent whatever must never happen twice.

pub mod report;
mod table;

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use linkledger_core::timestamp;
use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
use linkledger_service::{failure, lifecycle::interrupted};
use sqlx::{PgConnection, PgPool};
use tokio::time::{self, Instant};

pub use self::table::{RecordedCommand, record_in_tx, recorded};
use crate::read_models::Projection;

/// Interval at which a running command checks its session and its rows.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Sets the idle time after which Postgres ends the session of a frozen command. A running command
/// uses its session at every [`CHECK_INTERVAL`].
const SET_IDLE_TIMEOUT: &str = "SET idle_session_timeout = '5s'";
/// Time after which a command that lost its session gives up. Longer than Postgres needs to notice a
/// broken connection by TCP keepalives: until then, the lost session holds the advisory lock.
const RECONNECT_TIME_MAX: Duration = Duration::from_secs(15);
/// Longest pause between two attempts at a new session.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Longest time that Postgres may take to notice the death of a process on a machine that is up.
const DEATH_NOTICE_MAX: Duration = Duration::from_secs(2);
/// Interval at which a new command looks for the end of the one before.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Error of a long command after a later command has marked the rows as interrupted.
const SUPERSEDED: &str = "this command lost its session with the database, and another command has taken \
                          its place; run it again";

tokio::task_local! {
    /// Rows of the long command that the task works for.
    static OPERATION_IDS: Vec<i64>;
}

/// Command of an operator, for the record.
#[derive(Debug, Clone, Copy)]
pub struct OperatorCommand<'a> {
    /// Name of the command, as typed.
    pub name: &'static str,
    /// Projections changed as a whole; may be empty.
    pub projections: &'a [Projection],
    /// Changed account or generation; first day of a recount; `clicks`, if their aggregation is paused or resumed.
    pub subject: Option<&'a str>,
    /// Name of the operator.
    pub operator: &'a str,
    /// Reason given by the operator.
    pub reason: Option<&'a str>,
}

linkledger_core::named_enum! {
    /// Outcome of a command, by its name in SQL.
    pub enum OperationOutcome {
        /// The command succeeded.
        Done = "done",
        /// The command failed; the detail gives the reason.
        Failed = "failed",
        /// A signal or the death of the process ended the command.
        Interrupted = "interrupted",
    }
}

/// Runs `work` while no other long command works on the same projections, and records its outcome;
/// `describe` returns the outcome of each projection, with a text. SIGINT and SIGTERM end the
/// command.
///
/// `work` may be dropped between any two of its transactions.
///
/// # Errors
/// Returns an error if a second command works on one of the projections, or has taken the place of the command,
/// or the error of `work` or of the database.
pub async fn hold<T>(
    pool: &PgPool,
    command: &OperatorCommand<'_>,
    work: impl Future<Output = anyhow::Result<T>>,
    describe: impl Fn(&T, Projection) -> (OperationOutcome, String),
) -> anyhow::Result<T> {
    let interrupted = interrupted()?;
    let mut session = session(pool).await.context("cannot record the command")?;
    let ids = begin(&mut session, command).await?;
    let result = tokio::select! {
        // A process that was frozen checks its rows first.
        biased;
        error = keep(pool, &mut session, &ids) => Err(error),
        result = Box::pin(OPERATION_IDS.scope(ids.clone(), work)) => result,
        () = interrupted => {
            let detail = "ended by a signal".to_owned();
            finish(pool, &ids, command, |_| (OperationOutcome::Interrupted, detail.clone())).await?;
            bail!("ended by a signal; finished work is kept: run the command again to continue");
        }
    };
    match result {
        Ok(value) => {
            finish(pool, &ids, command, |it| describe(&value, it)).await?;
            Ok(value)
        }
        Err(error) => {
            let detail = failure::text(&error);
            let failed = |_| (OperationOutcome::Failed, detail.clone());
            if let Err(unrecorded) = finish(pool, &ids, command, failed).await {
                tracing::warn!(
                    error = format!("{unrecorded:#}"),
                    "cannot record the failure of the command"
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
/// Returns an error if a later command has taken the place of the command, or the error of the database.
pub async fn ensure_held_in_tx(tx: &mut PgConnection) -> anyhow::Result<()> {
    let Ok(ids) = OPERATION_IDS.try_with(Clone::clone) else {
        return Ok(());
    };
    let is_held = table::are_unfinished_in_tx(tx, &ids)
        .await
        .context("cannot read the record of the command")?;
    ensure!(is_held, SUPERSEDED);
    Ok(())
}

/// Opens a session outside of the pool: dropping the session releases its advisory locks. Postgres
/// ends the session of a frozen process.
async fn session(pool: &PgPool) -> sqlx::Result<PgConnection> {
    let mut session = pool.acquire().await?.detach();
    sqlx::raw_sql(SET_IDLE_TIMEOUT)
        .execute(&mut session)
        .await?;
    Ok(session)
}

/// Records that the command runs, unless another command runs. Waits for a moment: Postgres may not
/// have noticed yet that the process of the other command died.
async fn begin(
    session: &mut PgConnection,
    command: &OperatorCommand<'_>,
) -> anyhow::Result<Vec<i64>> {
    let give_up_at = Instant::now() + DEATH_NOTICE_MAX;
    loop {
        let begun = table::begin(session, command).await;
        if let Some(ids) = begun.context("cannot record the command")? {
            return Ok(ids);
        }
        if Instant::now() >= give_up_at {
            break;
        }
        time::sleep(POLL_INTERVAL).await;
    }
    let running = table::unfinished(session, command.projections).await;
    let Some(other) = running.context("cannot read which commands run")?.pop() else {
        bail!("another command on the same projections has ended just now; try again");
    };
    bail!(
        "`{}` by {} has been running since {}; nothing was changed: wait for its end and try again",
        other.title(),
        other.operator,
        timestamp::format(other.started_at)
    )
}

/// Holds the advisory lock while the rows are those of a running command, and returns the reason
/// for the end. A lost session is replaced, unless another command has begun in between.
async fn keep(pool: &PgPool, lock: &mut PgConnection, ids: &[i64]) -> anyhow::Error {
    loop {
        time::sleep(CHECK_INTERVAL).await;
        let checked = within(ANSWER_TIME_MAX, table::are_unfinished(lock, ids)).await;
        let is_held = match checked {
            Ok(is_held) => Ok(is_held),
            Err(error) => {
                tracing::debug!(%error, "the session of the command is lost; reconnecting");
                reconnect(pool, lock, ids).await
            }
        };
        match is_held {
            Ok(true) => {}
            Ok(false) => return anyhow!(SUPERSEDED),
            Err(error) => {
                let error = anyhow::Error::from(error);
                return error.context("the session that proves the command alive is lost");
            }
        }
    }
}

/// Locks in a new session, with retries for [`RECONNECT_TIME_MAX`]. Returns false if another command
/// has marked the rows as interrupted.
async fn reconnect(pool: &PgPool, lock: &mut PgConnection, ids: &[i64]) -> sqlx::Result<bool> {
    let give_up_at = Instant::now() + RECONNECT_TIME_MAX;
    let mut pause = POLL_INTERVAL;
    loop {
        match within(ANSWER_TIME_MAX, relock(pool, lock, ids)).await {
            Err(error) if Instant::now() + pause < give_up_at => {
                tracing::debug!(%error, "the command has no new session yet; retrying");
            }
            ended => return ended,
        }
        time::sleep(pause).await;
        pause = RECONNECT_PAUSE_MAX.min(pause * 2);
    }
}

/// Locks in a new session. Returns false if another command has marked the rows as interrupted.
async fn relock(pool: &PgPool, lock: &mut PgConnection, ids: &[i64]) -> sqlx::Result<bool> {
    *lock = session(pool).await?;
    table::lock(lock, ids).await?;
    table::are_unfinished(lock, ids).await
}

/// Records the outcome of each projection of the command.
async fn finish(
    pool: &PgPool,
    ids: &[i64],
    command: &OperatorCommand<'_>,
    describe: impl Fn(Projection) -> (OperationOutcome, String),
) -> anyhow::Result<()> {
    let projections = command.projections.iter();
    let ends: Vec<_> = projections.map(|it| (*it, describe(*it))).collect();
    table::finish(pool, ids, &ends)
        .await
        .context("cannot record the outcome of the command")
}
