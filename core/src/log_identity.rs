//! Identity of the log, and of the log that the read tables follow: the address of another installation
//! must not replace the read tables by those of a foreign log.

use anyhow::Context as _;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{databases::Databases, event_store::log};

/// The read tables follow another log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the read tables follow the log {followed}, and the log is {log_id}: LOG_DATABASE_URL and \
     READ_DATABASE_URL (each by default DATABASE_URL) name databases of two installations; correct the \
     wrong address (docs/scaling.md, \"Read tables on another server\")"
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

/// Gives empty read tables the identity and the epoch of the log, and read tables of an earlier release
/// the identity: migrations cannot read the log, which may be on another server.
///
/// Every read model with applied events of an older epoch needs a rebuild, also its shards without events:
/// the checkpoints of a read model must be of one epoch.
///
/// # Errors
/// Returns an error if the read tables follow another log, or a database fails.
pub async fn adopt(databases: &Databases) -> anyhow::Result<()> {
    let Databases { log, read } = databases;
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
    let epoch = log::epoch(log).await;
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
