//! Table `read_model.operations`: what operators have done, and the lease that keeps two of them
//! from doing it at the same time.
//!
//! A command that is one transaction is recorded in it, finished. One that takes long is recorded
//! when it begins and holds its projections until it ends; if its process dies, until the lease
//! is over. The lease is a courtesy to operators: what must never happen twice is held by the
//! checkpoints.

mod fence;
pub mod listing;
pub mod report;
mod table;

use std::{fmt, future::Future, time::Duration};

use anyhow::{Context as _, bail};
use linkledger_core::failure;
use sqlx::{PgConnection, PgPool};
use tokio::time::{self, Instant, MissedTickBehavior};

pub use self::fence::ensure_held_in_tx;
use self::table::Claim;
use crate::read_models::Projection;

/// How long a command that has died keeps others out.
pub const LEASE: Duration = Duration::from_secs(5);
/// How often a running command renews its lease.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// How often somebody who waits for the end of a lease looks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

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

/// Somebody has taken the command for dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this command stood still for so long that somebody else could begin; run it again")]
pub struct LeaseLost;

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

/// Does what takes long, while nobody else does such a thing to the same projections, and records
/// how it ended; `describe` says so of each projection, in words. A SIGINT or SIGTERM ends it.
///
/// `work` takes a transaction at a time: it may be dropped at any moment. The pool needs a session
/// for the lease.
///
/// # Errors
/// [`Collision`] if somebody else is at it; what `work` has failed with; or when the lease could
/// not be renewed.
pub async fn hold<T>(
    pool: &PgPool,
    command: &Command<'_>,
    work: impl Future<Output = anyhow::Result<T>>,
    describe: impl Fn(&T, Projection) -> (Outcome, String),
) -> anyhow::Result<T> {
    let ids = begin(pool, command).await?;
    let result = tokio::select! {
        // Who has stood still hears first that the lease is over.
        biased;
        error = keep(pool, &ids) => Err(error),
        result = Box::pin(fence::run_under(&ids, work)) => result,
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

/// Claims the projections. A claim whose holder may be dead is waited for: it is renewed within a
/// second, or over after [`LEASE`].
async fn begin(pool: &PgPool, command: &Command<'_>) -> anyhow::Result<Vec<i64>> {
    let give_up_at = Instant::now() + 2 * LEASE;
    let mut seen = None;
    while Instant::now() < give_up_at {
        let claim = table::claim(pool, command, LEASE)
            .await
            .context("can't record the command")?;
        match claim {
            Claim::Held(ids) => return Ok(ids),
            Claim::Taken(None) => {}
            Claim::Taken(Some(holder)) => {
                if seen.is_some_and(|at| at != holder.lease_expires_at) {
                    return Err(holder.collision.into());
                }
                seen = Some(holder.lease_expires_at);
            }
        }
        time::sleep(POLL_INTERVAL).await;
    }
    bail!("others change the same projections again and again; try again")
}

/// Renews the lease for as long as that is possible, and says why no longer.
async fn keep(pool: &PgPool, ids: &[i64]) -> anyhow::Error {
    let mut due = time::interval(RENEWAL_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut expires_at = Instant::now() + LEASE;
    loop {
        due.tick().await;
        let asked_at = Instant::now();
        match table::renew(pool, ids, LEASE).await {
            Ok(true) => expires_at = asked_at + LEASE,
            Ok(false) => {
                return LeaseLost.into();
            }
            Err(error) if Instant::now() >= expires_at => {
                return anyhow::Error::from(error).context("can't keep the lease of the command");
            }
            Err(error) => tracing::debug!(%error, "the lease was not renewed"),
        }
    }
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
