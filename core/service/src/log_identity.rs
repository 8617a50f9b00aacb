//! Identity of the log, and of the log that the read tables follow: the address of another installation
//! must not replace the read tables by those of a foreign log.

use anyhow::{Context as _, ensure};
use sqlx::PgPool;
use uuid::Uuid;

use crate::databases::Databases;
use linkledger_core::shard::Shard;
use linkledger_event_store::{log, log_meta};

/// The read tables follow another log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the read tables follow the log {followed}, and the log is {log_id}: LOG_DATABASE_URL and \
     READ_DATABASE_URL (each by default DATABASE_URL) name databases of two installations: correct the \
     wrong address (docs/read-servers.md, \"Checks of the addresses\")"
)]
pub struct OtherLog {
    log_id: Uuid,
    followed: Uuid,
}

/// Compares the identity of the log with the one that the read tables follow, which is unknown before
/// `migrate` has stored it.
///
/// # Errors
/// Returns an error if the read tables follow another log.
pub fn compare(log_id: Uuid, followed: Option<Uuid>) -> Result<(), OtherLog> {
    match followed {
        Some(followed) if followed != log_id => Err(OtherLog { log_id, followed }),
        _ => Ok(()),
    }
}

/// Checks that the read tables follow the log.
///
/// # Errors
/// Returns an error if the read tables follow another log, or a database fails.
pub async fn check(databases: &Databases) -> anyhow::Result<()> {
    let followed: Option<Uuid> =
        sqlx::query_scalar("SELECT log_id FROM read_model.followed_log WHERE singleton")
            .fetch_one(&databases.read)
            .await
            .context("cannot read which log the read tables follow")?;
    Ok(compare(log_id(&databases.log).await?, followed)?)
}

/// Checks, before any migration, that read tables with applied events follow the log. Accepts databases
/// that have no tables for the identity yet.
///
/// # Errors
/// Returns an error if the read tables follow another log, or a database fails.
pub async fn check_before_migration(databases: &Databases) -> anyhow::Result<()> {
    let has_column = async |pool: &PgPool, table: &str| {
        let has_column: sqlx::Result<bool> = sqlx::query_scalar(
            "SELECT EXISTS (
                 SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'log_id'
             )",
        )
        .bind(table)
        .fetch_one(pool)
        .await;
        has_column.context("cannot read the schemas of the database")
    };
    if !has_column(&databases.log, "event_store.log_meta").await?
        || !has_column(&databases.read, "read_model.followed_log").await?
    {
        return Ok(());
    }
    let has_events: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM read_model.checkpoints WHERE position > 0)")
            .fetch_one(&databases.read)
            .await
            .context("cannot read the checkpoints")?;
    if has_events {
        check(databases).await?;
    }
    Ok(())
}

/// Checks that read tables without a stored identity can be of this log: no checkpoint is beyond the log.
async fn ensure_not_beyond(databases: &Databases) -> anyhow::Result<()> {
    let is_known: bool = sqlx::query_scalar(
        "SELECT log_id IS NOT NULL FROM read_model.followed_log WHERE singleton",
    )
    .fetch_one(&databases.read)
    .await
    .context("cannot read which log the read tables follow")?;
    if is_known {
        return Ok(());
    }
    let end = log::end(&databases.log).await;
    let end = end.context("cannot read the end of the log")?;
    let (shards, heads): (Vec<i16>, Vec<i64>) = Shard::all()
        .map(|shard| (shard.number(), end.heads[shard.index()]))
        .unzip();
    let is_beyond: bool = sqlx::query_scalar(
        "SELECT EXISTS (
             SELECT FROM read_model.checkpoints AS c
             JOIN unnest($2::smallint[], $3::bigint[]) AS log (shard, head) USING (shard)
             WHERE c.role = 'live'
               AND (c.epoch > $1 OR c.epoch = $1 AND c.position > log.head)
         )",
    )
    .bind(end.epoch)
    .bind(shards)
    .bind(heads)
    .fetch_one(&databases.read)
    .await
    .context("cannot compare the checkpoints with the log")?;
    ensure!(
        !is_beyond,
        "a checkpoint of the read tables is beyond the log: either LOG_DATABASE_URL or \
         READ_DATABASE_URL is the address of another installation, or the log was restored: then raise \
         its epoch first (docs/backup.md)"
    );
    Ok(())
}

/// Gives empty read tables the identity and the epoch of the log, and read tables without an identity
/// the identity: migrations cannot read the log, which may be on another server.
///
/// Every read model with applied events of an older epoch needs a rebuild, also its shards without events:
/// the checkpoints of a read model must be of one epoch.
///
/// # Errors
/// Returns an error if the read tables follow another log, or a database fails.
pub async fn adopt(databases: &Databases) -> anyhow::Result<()> {
    let Databases { log, read } = databases;
    ensure_not_beyond(databases).await?;
    sqlx::query(
        "UPDATE read_model.followed_log SET log_id = $1
         WHERE log_id IS NULL
            OR NOT EXISTS (SELECT FROM read_model.checkpoints WHERE position > 0)",
    )
    .bind(log_id(log).await?)
    .execute(read)
    .await
    .context("cannot store which log the read tables follow; retry `migrate`")?;
    check(databases).await?;
    let epoch = log_meta::epoch(log).await;
    let epoch = epoch.context("cannot read the epoch of the log; retry `migrate`")?;
    sqlx::query(
        "UPDATE read_model.checkpoints AS c SET epoch = $1
         WHERE role = 'live' AND position = 0 AND epoch < $1 AND NOT EXISTS (
             SELECT FROM read_model.checkpoints AS other
             WHERE other.projection = c.projection AND other.role = 'live' AND other.position > 0
         )",
    )
    .bind(epoch)
    .execute(read)
    .await
    .context("cannot give new checkpoints the epoch of the log; retry `migrate`")?;
    Ok(())
}

async fn log_id(log: &PgPool) -> anyhow::Result<Uuid> {
    let log_id = sqlx::query_scalar("SELECT log_id FROM event_store.log_meta");
    let log_id = log_id.fetch_one(log).await;
    log_id.context("cannot read the identity of the log")
}
