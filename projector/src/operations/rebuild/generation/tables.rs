//! Creation, analysis and removal of the tables of a generation, by functions of the migrations.

use anyhow::{Context as _, bail};
use linkledger_service::fail_point;
use sqlx::PgPool;
use tokio::time::sleep;

use crate::{
    pipeline::retry::Backoff,
    read_models::{Projection, tables as read_tables},
};

/// Most attempts to acquire a lock that readers or vacuum hold: some minutes.
const LOCK_ATTEMPTS_MAX: u32 = 100;

/// Creates the tables and checkpoints of a generation.
///
/// # Errors
/// Returns an error if the database fails, or if the tables stay locked.
pub async fn create(
    pool: &PgPool,
    projection: Projection,
    number: i32,
    epoch: i32,
) -> anyhow::Result<()> {
    let create = async || {
        sqlx::query!(
            "SELECT read_model.create_generation($1, $2, $3)",
            projection.name(),
            number,
            epoch
        )
        .execute(pool)
        .await
    };
    with_lock(create)
        .await
        .with_context(|| format!("cannot create generation {number} of `{projection}`"))?;
    fail_point::reached("rebuild.created");
    Ok(())
}

/// Collects statistics of the tables for the planner. A table that is locked is skipped: autovacuum
/// analyzes it later.
pub async fn analyze(pool: &PgPool, projection: Projection, number: i32) {
    for table in read_tables(projection) {
        let table = table.name;
        let analyzed = sqlx::query!(
            "SELECT read_model.analyze_table($1, $2, $3)",
            projection.name(),
            table,
            number
        )
        .execute(pool)
        .await;
        if let Err(error) = analyzed {
            tracing::warn!(%error, "cannot analyze the table `{table}` of generation {number}; continuing");
        }
    }
}

/// Drops the tables of a generation, one after the other, and then its records. An interrupted drop
/// can be repeated.
///
/// # Errors
/// Returns an error if the generation is served or was served within the last minute, if its tables
/// stay locked, or if the database fails.
pub async fn drop_all(pool: &PgPool, projection: Projection, number: i32) -> anyhow::Result<()> {
    let step = async || {
        sqlx::query_scalar!(
            r#"SELECT read_model.drop_generation($1, $2) AS "is_done!""#,
            projection.name(),
            number
        )
        .fetch_one(pool)
        .await
    };
    loop {
        let is_done = with_lock(step)
            .await
            .with_context(|| format!("cannot drop generation {number} of `{projection}`"))?;
        fail_point::reached("drop.step");
        if is_done {
            return Ok(());
        }
    }
}

/// Retries until the lock is acquired. Each attempt is short, because readers queue behind a waiting
/// lock.
async fn with_lock<T>(attempt: impl AsyncFn() -> sqlx::Result<T>) -> anyhow::Result<T> {
    let mut backoff = Backoff::default();
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match attempt().await {
            Err(error) if linkledger_event_store::errors::is_lock_timeout(&error) => {
                sleep(backoff.next_delay()).await;
            }
            result => return Ok(result?),
        }
    }
    bail!("its tables are always in use; retry when there are fewer requests")
}
