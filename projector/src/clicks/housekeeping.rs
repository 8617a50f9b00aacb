//! Housekeeping of the tables of clicks: creates partitions of tables early, drops expired ones, keeps the salts of
//! the present days, and prunes recorders and their sequences.
//!
//! A failed step is retried within a minute. Meanwhile, the aggregation creates missing partitions itself.

use std::time::{Duration, Instant};

use anyhow::ensure;
use linkledger_core::clock;
use linkledger_event_store::{
    errors,
    time_limit::{ANSWER_TIME_MAX, within},
};
use linkledger_service::kafka_config::ClicksConfig;
use sqlx::PgPool;
use time::UtcOffset;
use tokio_util::sync::CancellationToken;

use super::{partition_days, position};
use crate::pipeline::periodic::Periodic;

/// Interval of the housekeeping.
const INTERVAL: Duration = Duration::from_mins(1);
/// Interval of the pruning of sequences, which reads all of them.
const SEQUENCES_INTERVAL: Duration = Duration::from_hours(1);
/// Days ahead of which partitions exist.
const DAYS_AHEAD: i64 = 40;
/// Days between two days of which partitions are created; the shortest partition is a week.
const DAYS_STEP: usize = 7;
/// SQLSTATE `undefined_table`.
const UNDEFINED_TABLE: &str = "42P01";
/// Maximum number of rows that one statement deletes.
const PRUNED_MAX: i64 = 1_000;

/// Runs the housekeeping once per `INTERVAL`, for sequences once per `SEQUENCES_INTERVAL`, until the shutdown.
/// Creates nothing new where clicks are switched off; retention continues.
///
/// # Errors
/// Returns an error if a step has failed for a reason that lasts, after all steps were tried: the task counts as
/// failed, and is started again.
pub async fn keep(
    pool: PgPool,
    clicks: ClicksConfig,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut periodic = Periodic::new(INTERVAL, shutdown);
    let mut sequences_pruned_at: Option<Instant> = None;
    while periodic.is_due().await {
        let mut is_sound = true;
        if clicks.are_on() {
            is_sound &= attempt("create the salts of visitors", create_salts(&pool)).await;
            is_sound &= attempt("create partitions", create_ahead(&pool)).await;
        }
        is_sound &= attempt("delete the salts of the past", delete_salts(&pool)).await;
        is_sound &= attempt("drop an expired partition", drop_expired(&pool)).await;
        is_sound &= attempt("prune recorders", prune_recorders(&pool)).await;
        if sequences_pruned_at.is_none_or(|at| at.elapsed() >= SEQUENCES_INTERVAL) {
            is_sound &= attempt("prune sequences", prune_sequences(&pool)).await;
            sequences_pruned_at = Some(Instant::now());
        }
        ensure!(is_sound, "the housekeeping of clicks has failed");
    }
    Ok(())
}

/// Does a step, and logs the error. Returns false after a failure for a lasting reason.
async fn attempt<T>(step: &str, work: impl Future<Output = sqlx::Result<T>>) -> bool {
    let Err(error) = within(ANSWER_TIME_MAX, work).await else {
        return true;
    };
    let cause = &error as &dyn std::error::Error;
    if errors::is_lock_timeout(&error) {
        tracing::debug!("cannot {step}: another session holds a lock; retrying in {INTERVAL:?}");
        return true;
    }
    tracing::warn!(error = cause, "clicks: cannot {step}");
    errors::is_transient(&error)
}

/// Creates the partitions of today and of the days ahead.
///
/// # Errors
/// Returns an error if the database fails, or another session locks a table.
pub async fn create_ahead(pool: &PgPool) -> sqlx::Result<()> {
    let today = position::clock(pool)
        .await?
        .to_offset(UtcOffset::UTC)
        .date();
    for ahead in (0..DAYS_AHEAD).step_by(DAYS_STEP).chain([DAYS_AHEAD]) {
        partition_days::create(pool, today + time::Duration::days(ahead)).await?;
    }
    Ok(())
}

/// Drops one partition whose days are kept no more, and returns its name.
///
/// # Errors
/// Returns an error if the database fails, or another session locks the table.
pub async fn drop_expired(pool: &PgPool) -> sqlx::Result<Option<String>> {
    let dropped = sqlx::query_scalar!("SELECT clicks.drop_expired_partition()")
        .fetch_one(pool)
        .await;
    let dropped = match dropped {
        // Another projector has dropped the partition meanwhile.
        Err(error) if errors::sqlstate(&error).as_deref() == Some(UNDEFINED_TABLE) => None,
        dropped => dropped?,
    };
    if let Some(table) = &dropped {
        tracing::info!("dropped the expired partition clicks.{table}");
    }
    Ok(dropped)
}

/// Creates the salts of today and tomorrow.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create_salts(pool: &PgPool) -> sqlx::Result<()> {
    let (today, tomorrow) = (clock::random_bytes::<16>(), clock::random_bytes::<16>());
    sqlx::query!(
        "
        INSERT INTO clicks.salts (day, salt)
        VALUES ((now() AT TIME ZONE 'UTC')::date, $1), ((now() AT TIME ZONE 'UTC')::date + 1, $2)
        ON CONFLICT (day) DO NOTHING
        ",
        &today[..],
        &tomorrow[..]
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Deletes each salt 48 hours after its day began.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn delete_salts(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM clicks.salts WHERE day <= (now() AT TIME ZONE 'UTC')::date - 2")
        .execute(pool)
        .await?;
    Ok(())
}

/// Deletes recorders that have ended or are dead for a day, if the topic has been read since.
/// Recorders whose last records were lost stay for 800 days, as their sequences do: the last heartbeat is the
/// only trace of the loss. The last recorder stays: without living recorders, statistics are complete until its
/// last sign. Returns the number of deleted recorders.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn prune_recorders(pool: &PgPool) -> sqlx::Result<u64> {
    let result = sqlx::query!(
        "
        DELETE FROM clicks.recorders WHERE recorder_id IN (
            SELECT recorder_id FROM clicks.recorders AS r
            WHERE greatest(seen_at, ended_at) < now() - interval '1 day'
              AND greatest(seen_at, ended_at) + interval '60 s'
                  < (SELECT min(coalesce(read_to_end_at, '-infinity')) FROM clicks.positions)
              AND greatest(seen_at, ended_at)
                  < (SELECT max(greatest(seen_at, ended_at)) FROM clicks.recorders)
              AND (greatest(seen_at, ended_at) < now() - interval '800 days' OR NOT EXISTS (
                  SELECT
                  FROM clicks.heartbeats AS h
                  CROSS JOIN LATERAL unnest(h.sequences) WITH ORDINALITY AS claimed (sequence, number)
                  JOIN clicks.positions AS p ON p.partition = claimed.number - 1
                  LEFT JOIN clicks.sequences AS s
                    ON s.partition = p.partition AND s.recorder_id = r.recorder_id
                  WHERE h.recorder_id = r.recorder_id
                    AND claimed.sequence > coalesce(s.sequence, 0)
              ))
            ORDER BY recorder_id
            LIMIT $1
        )
        ",
        PRUNED_MAX
    )
    .execute(pool)
    .await?;
    Ok(result.rows_affected())
}

/// Deletes sequences of recorders that are gone, 800 days after their last record. Returns the number of deleted
/// rows.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn prune_sequences(pool: &PgPool) -> sqlx::Result<u64> {
    let result = sqlx::query!(
        "
        DELETE FROM clicks.sequences WHERE (partition, recorder_id) IN (
            SELECT partition, recorder_id FROM clicks.sequences AS s
            WHERE counted_at < now() - interval '800 days'
              AND NOT EXISTS (
                  SELECT FROM clicks.recorders AS r WHERE r.recorder_id = s.recorder_id
              )
            LIMIT $1
        )
        ",
        PRUNED_MAX
    )
    .execute(pool)
    .await?;
    Ok(result.rows_affected())
}
