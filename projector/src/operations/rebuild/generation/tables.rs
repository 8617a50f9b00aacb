//! The functions of the migrations by which tables of a generation come and go.

use anyhow::{Context as _, bail};
use linkledger_core::{event_store, fail_point};
use sqlx::PgPool;
use tokio::time::sleep;

use crate::{
    pipeline::retry::Backoff,
    read_models::{Projection, description::ReadModel as _},
};

/// Most attempts to get a lock that readers or vacuum are in the way of: some minutes.
const LOCK_ATTEMPTS_MAX: u32 = 100;

/// Makes the tables and checkpoints of a generation that nobody reads yet.
///
/// # Errors
/// When the database does not answer, or the tables are in use for too long.
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
        .with_context(|| format!("can't create generation {number} of `{projection}`"))?;
    fail_point::reached("rebuild.created");
    Ok(())
}

/// Tells the planner what is in the tables, where that can be done in time: autovacuum does the rest.
pub async fn analyze(pool: &PgPool, projection: Projection, number: i32) {
    for table in projection.tables() {
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
            tracing::warn!(%error, "can't analyze table `{table}` of generation {number}; going on");
        }
    }
}

/// Drops the tables of a generation, one after the other, and then all that is known of it. Can be
/// begun again wherever it was broken off.
///
/// # Errors
/// When it is served or was a moment ago, the tables are in use for too long, or the database does
/// not answer.
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
            .with_context(|| format!("can't drop generation {number} of `{projection}`"))?;
        fail_point::reached("drop.step");
        if is_done {
            return Ok(());
        }
    }
}

/// Tries until the lock is had that readers are in the way of: they must not queue behind us.
async fn with_lock<T>(attempt: impl AsyncFn() -> sqlx::Result<T>) -> anyhow::Result<T> {
    let mut backoff = Backoff::default();
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match attempt().await {
            Err(error) if event_store::is_lock_timeout(&error) => {
                sleep(backoff.next_delay()).await;
            }
            result => return Ok(result?),
        }
    }
    bail!("its tables are in use all the time; try again when fewer requests come")
}
