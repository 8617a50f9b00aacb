//! Countings of clicks: their state, pause, resume and recount.

pub mod recount;

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{click::Counting, event_store::transaction::PoolTransaction, timestamp};
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

/// State of the countings.
#[derive(Debug, Clone, Serialize)]
pub struct ClickStatus {
    /// Recorders with a heartbeat within the last 60 s.
    pub recorders: i64,
    /// Every counting, by name.
    pub countings: Vec<CountingStatus>,
}

/// State of a counting.
#[derive(Debug, Clone, Serialize)]
pub struct CountingStatus {
    /// The counting.
    pub counting: Counting,
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

/// State of a counting after a pause or a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PausedCounting {
    /// The counting.
    pub counting: Counting,
    /// True if the command changed the state.
    #[serde(rename = "changed")]
    pub is_changed: bool,
    /// Start of the pause; `None` if not paused.
    #[serde(serialize_with = "timestamp::serialize")]
    pub paused_at: Option<OffsetDateTime>,
}

/// Reads the state of the countings.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn status(pool: &PgPool) -> sqlx::Result<ClickStatus> {
    let recorders = sqlx::query_scalar!(
        r#"
        SELECT count(*) AS "count!" FROM clicks.recorders
        WHERE ended_at IS NULL AND seen_at > now() - interval '60 s'
        "#
    )
    .fetch_one(pool)
    .await?;
    let mut countings = Vec::new();
    for counting in Counting::ALL {
        countings.push(status_of(pool, counting).await?);
    }
    Ok(ClickStatus {
        recorders,
        countings,
    })
}

async fn status_of(pool: &PgPool, counting: Counting) -> sqlx::Result<CountingStatus> {
    let row = sqlx::query!(
        r#"
        SELECT nullif(clicks.complete_until($1), 'epoch') AS complete_until,
               clicks.lag_seconds($1) AS "lag_seconds!",
               CASE WHEN count(p.read_to_end_at) = count(*) THEN
                   extract(epoch FROM now() - min(p.read_to_end_at))::double precision
               END AS read_to_end_seconds_ago,
               extract(epoch FROM now() - max(p.counted_at))::double precision
                   AS last_batch_seconds_ago,
               (SELECT coalesce(sum(s.missing), 0)::bigint FROM clicks.sequences AS s
                WHERE s.counting = $1)
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
                    ON own.counting = $1 AND own.partition = claimed.number - 1
                   AND own.read_to_end_at > greatest(r.seen_at, r.ended_at) + interval '60 s'
                  LEFT JOIN clicks.sequences AS s
                    ON s.counting = $1 AND s.partition = own.partition
                   AND s.recorder_id = r.recorder_id
                  WHERE claimed.sequence > coalesce(s.sequence, 0)) AS "missing!",
               min(p.paused_at) AS paused_at,
               pause.operator AS "paused_by?",
               pause.reason AS pause_reason
        FROM clicks.positions AS p
        LEFT JOIN LATERAL (
            SELECT o.operator, o.reason FROM read_model.operations AS o
            WHERE o.command = 'clicks pause' AND o.subject = $1
            ORDER BY o.operation_id DESC
            LIMIT 1
        ) AS pause ON true
        WHERE p.counting = $1
        GROUP BY pause.operator, pause.reason
        "#,
        counting.name()
    )
    .fetch_one(pool)
    .await?;
    let seconds_ago = |at: Option<f64>| at.map(|seconds| seconds.max(0.0));
    Ok(CountingStatus {
        counting,
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

/// Returns the start of each counting's pause; `None` if a partition of the counting is not paused.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn paused(
    pool: &PgPool,
    countings: &[Counting],
) -> sqlx::Result<Vec<(Counting, Option<OffsetDateTime>)>> {
    read_paused(&mut *pool.acquire().await?, countings).await
}

/// Pauses or resumes countings, and records the command for each counting that changed. Returns after the commit,
/// when the last batches are finished.
///
/// # Errors
/// Returns an error if the database fails, or a batch does not end before the deadline.
pub async fn change(
    pool: &PgPool,
    countings: &[Counting],
    change: PauseChange,
    operator: &str,
    reason: Option<&str>,
) -> anyhow::Result<Vec<PausedCounting>> {
    change_since(pool, countings, change, None, (operator, reason)).await
}

/// Changes countings, or of these only the ones that are paused since an instant.
async fn change_since(
    pool: &PgPool,
    countings: &[Counting],
    change: PauseChange,
    since: Option<OffsetDateTime>,
    operator: OperatorName<'_>,
) -> anyhow::Result<Vec<PausedCounting>> {
    let give_up_at = Instant::now() + PATIENCE;
    let mut backoff = Backoff::default();
    loop {
        let changed = try_change(pool, countings, change, since, operator).await;
        match changed.context("cannot pause or resume the counting of clicks") {
            Err(error) if retry::passes_by_itself(&error) && Instant::now() < give_up_at => {
                sleep(backoff.next_delay()).await;
            }
            result => return result,
        }
    }
}

async fn try_change(
    pool: &PgPool,
    countings: &[Counting],
    change: PauseChange,
    since: Option<OffsetDateTime>,
    operator: OperatorName<'_>,
) -> sqlx::Result<Vec<PausedCounting>> {
    let mut tx = PoolTransaction::begin(pool).await?;
    let states = change_in_tx(&mut tx, countings, change, since, operator).await?;
    tx.commit().await?;
    Ok(states)
}

async fn change_in_tx(
    tx: &mut PgConnection,
    countings: &[Counting],
    change: PauseChange,
    since: Option<OffsetDateTime>,
    (operator, reason): OperatorName<'_>,
) -> sqlx::Result<Vec<PausedCounting>> {
    let names: Vec<&str> = countings.iter().map(|it| it.name()).collect();
    let is_paused = change == PauseChange::Pause;
    // Waits for the running batches.
    sqlx::query!(
        "
        SELECT partition FROM clicks.positions WHERE counting = ANY($1)
        ORDER BY counting, partition
        FOR NO KEY UPDATE
        ",
        &names as &[&str]
    )
    .fetch_all(&mut *tx)
    .await?;
    let before = read_paused(tx, countings).await?;
    sqlx::query!(
        "
        UPDATE clicks.positions SET paused_at = CASE WHEN $2 THEN coalesce(paused_at, now()) END
        WHERE counting = ANY($1) AND ($3::timestamptz IS NULL OR paused_at = $3)
        ",
        &names as &[&str],
        is_paused,
        since
    )
    .execute(&mut *tx)
    .await?;
    let after = read_paused(tx, countings).await?;
    let states = before.into_iter().zip(after);
    let states = states.map(|((counting, before), (_, after))| PausedCounting {
        counting,
        is_changed: before.is_some() != after.is_some(),
        paused_at: after,
    });
    let states: Vec<PausedCounting> = states.collect();
    for state in states.iter().filter(|state| state.is_changed) {
        let (name, outcome) = match change {
            PauseChange::Pause => ("clicks pause", "paused; its last batches are finished"),
            PauseChange::Resume => ("clicks resume", "resumed"),
        };
        let command = OperatorCommand {
            name,
            projections: &[],
            subject: Some(state.counting.name()),
            operator,
            reason,
        };
        audit::record_in_tx(tx, &command, OperationOutcome::Done, outcome).await?;
    }
    Ok(states)
}

async fn read_paused(
    session: &mut PgConnection,
    countings: &[Counting],
) -> sqlx::Result<Vec<(Counting, Option<OffsetDateTime>)>> {
    let names: Vec<&str> = countings.iter().map(|it| it.name()).collect();
    let rows = sqlx::query!(
        r#"
        SELECT counting, CASE WHEN count(paused_at) = count(*) THEN min(paused_at) END AS paused_at
        FROM clicks.positions WHERE counting = ANY($1)
        GROUP BY counting
        "#,
        &names as &[&str]
    )
    .fetch_all(session)
    .await?;
    let paused_at = |counting: &Counting| {
        let row = rows.iter().find(|row| row.counting == counting.name());
        (*counting, row.and_then(|row| row.paused_at))
    };
    Ok(countings.iter().map(paused_at).collect())
}
