//! The counting of clicks: its state, pause, resume and recount.

pub mod recount;

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{event_store::transaction::PoolTransaction, timestamp};
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use crate::{
    operations::{
        audit::{self, OperationOutcome, OperatorCommand},
        pause::PauseChange,
    },
    pipeline::retry::{self, Backoff},
};

/// Longest wait for a running batch. Postgres ends the transaction of a frozen process earlier.
const PATIENCE: Duration = Duration::from_secs(10);

/// Operator of a command, with the reason.
pub type OperatorName<'a> = (&'a str, Option<&'a str>);

/// State of the counting.
#[derive(Debug, Clone, Serialize)]
pub struct ClickStatus {
    /// Recorders with a heartbeat within the last 60 s.
    pub recorders: i64,
    /// Instant before which every click is in the figures; `None` before every partition was read to its end.
    #[serde(serialize_with = "timestamp::serialize")]
    pub complete_until: Option<OffsetDateTime>,
    /// Lag of the figures: age of `complete_until`, or of the first recorder before that.
    pub lag_seconds: f64,
    /// Time since the partition that is read least far was read to its end; `None` if a partition never was.
    pub read_to_end_seconds_ago: Option<f64>,
    /// Time since the last batch; `None` before the first one.
    pub last_batch_seconds_ago: Option<f64>,
    /// Records of clicks that the topic lacked, with those that a recorder wrote last before its end.
    pub missing: i64,
    /// Start of a pause; `None` if no partition is paused.
    #[serde(serialize_with = "timestamp::serialize")]
    pub paused_at: Option<OffsetDateTime>,
    /// Operator of the last pause; `None` if not paused.
    pub paused_by: Option<String>,
    /// Reason of the last pause, if the operator gave one.
    pub pause_reason: Option<String>,
}

/// State of the counting after a pause or a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PausedCounting {
    /// True if the command changed the state.
    pub is_changed: bool,
    /// Start of the pause; `None` if not paused.
    pub paused_at: Option<OffsetDateTime>,
}

/// Reads the state of the counting.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn status(pool: &PgPool) -> sqlx::Result<ClickStatus> {
    let row = sqlx::query!(
        r#"
        SELECT (SELECT count(*) FROM clicks.recorders
                WHERE ended_at IS NULL AND seen_at > now() - interval '60 s') AS "recorders!",
               nullif(clicks.complete_until(), 'epoch') AS complete_until,
               clicks.lag_seconds() AS "lag_seconds!",
               CASE WHEN count(p.read_to_end_at) = count(*) THEN
                   extract(epoch FROM now() - min(p.read_to_end_at))::double precision
               END AS read_to_end_seconds_ago,
               extract(epoch FROM now() - max(p.counted_at))::double precision
                   AS last_batch_seconds_ago,
               (SELECT coalesce(sum(s.missing), 0)::bigint FROM clicks.sequences AS s)
               -- After the last counted record of a recorder that is gone: its last heartbeat knows of more.
               + (SELECT coalesce(sum(claimed.sequence - coalesce(s.sequence, 0)), 0)::bigint
                  FROM clicks.recorders AS r
                  CROSS JOIN LATERAL (
                      SELECT h.sequences FROM clicks.heartbeats AS h
                      WHERE h.recorder_id = r.recorder_id
                      ORDER BY h.recorded_until DESC
                      LIMIT 1
                  ) AS last
                  CROSS JOIN LATERAL unnest(last.sequences) WITH ORDINALITY AS claimed (sequence, number)
                  JOIN clicks.positions AS own
                    ON own.partition = claimed.number - 1
                   AND own.read_to_end_at > greatest(r.seen_at, r.ended_at) + interval '60 s'
                  LEFT JOIN clicks.sequences AS s
                    ON s.partition = own.partition AND s.recorder_id = r.recorder_id
                  WHERE claimed.sequence > coalesce(s.sequence, 0)) AS "missing!",
               min(p.paused_at) AS paused_at,
               pause.operator AS "paused_by?",
               pause.reason AS pause_reason
        FROM clicks.positions AS p
        LEFT JOIN LATERAL (
            SELECT o.operator, o.reason FROM read_model.operations AS o
            WHERE o.command = 'clicks pause'
            ORDER BY o.operation_id DESC
            LIMIT 1
        ) AS pause ON true
        GROUP BY pause.operator, pause.reason
        "#
    )
    .fetch_one(pool)
    .await?;
    let seconds_ago = |at: Option<f64>| at.map(|seconds| seconds.max(0.0));
    Ok(ClickStatus {
        recorders: row.recorders,
        complete_until: row.complete_until,
        lag_seconds: row.lag_seconds,
        read_to_end_seconds_ago: seconds_ago(row.read_to_end_seconds_ago),
        last_batch_seconds_ago: seconds_ago(row.last_batch_seconds_ago),
        missing: row.missing,
        paused_at: row.paused_at,
        paused_by: row.paused_by.filter(|_| row.paused_at.is_some()),
        pause_reason: row.pause_reason.filter(|_| row.paused_at.is_some()),
    })
}

/// Returns the start of the pause; `None` if a partition is not paused.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn paused_at(pool: &PgPool) -> sqlx::Result<Option<OffsetDateTime>> {
    read_paused_at(&mut *pool.acquire().await?).await
}

/// Pauses or resumes the counting, and records the command if it changed something. Returns after the commit, when the
/// last batches are finished.
///
/// # Errors
/// Returns an error if the database fails, or a batch does not end before the deadline.
pub async fn change(
    pool: &PgPool,
    change: PauseChange,
    operator: OperatorName<'_>,
) -> anyhow::Result<PausedCounting> {
    let give_up_at = Instant::now() + PATIENCE;
    let mut backoff = Backoff::default();
    loop {
        let changed = try_change(pool, change, operator).await;
        match changed.context("cannot pause or resume the counting of clicks; does a recount run?")
        {
            Err(error) if retry::passes_by_itself(&error) && Instant::now() < give_up_at => {
                sleep(backoff.next_delay()).await;
            }
            result => return result,
        }
    }
}

async fn try_change(
    pool: &PgPool,
    change: PauseChange,
    (operator, reason): OperatorName<'_>,
) -> sqlx::Result<PausedCounting> {
    let mut tx = PoolTransaction::begin(pool).await?;
    // Waits for the running batches.
    sqlx::query!("SELECT partition FROM clicks.positions ORDER BY partition FOR NO KEY UPDATE")
        .fetch_all(&mut *tx)
        .await?;
    let before = read_paused_at(&mut tx).await?;
    sqlx::query!(
        "UPDATE clicks.positions SET paused_at = CASE WHEN $1 THEN coalesce(paused_at, now()) END",
        change == PauseChange::Pause
    )
    .execute(&mut *tx)
    .await?;
    let paused_at = read_paused_at(&mut tx).await?;
    let is_changed = before.is_some() != paused_at.is_some();
    if is_changed {
        let (name, outcome) = match change {
            PauseChange::Pause => ("clicks pause", "paused; its last batches are finished"),
            PauseChange::Resume => ("clicks resume", "resumed"),
        };
        let command = OperatorCommand {
            name,
            projections: &[],
            subject: None,
            operator,
            reason,
        };
        audit::record_in_tx(&mut tx, &command, OperationOutcome::Done, outcome).await?;
    }
    tx.commit().await?;
    Ok(PausedCounting {
        is_changed,
        paused_at,
    })
}

async fn read_paused_at(session: &mut PgConnection) -> sqlx::Result<Option<OffsetDateTime>> {
    sqlx::query_scalar!(
        "SELECT CASE WHEN count(paused_at) = count(*) THEN min(paused_at) END AS paused_at
         FROM clicks.positions"
    )
    .fetch_one(session)
    .await
}
