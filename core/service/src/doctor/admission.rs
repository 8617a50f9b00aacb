//! Checks of the databases that a process makes before it uses them; the first problem ends the process.

use anyhow::Context as _;

use super::server;
use crate::{
    databases::{DatabaseOf, DatabaseSettings},
    failure, log_identity,
};
use linkledger_event_store::{SessionKind, migrations};

/// Refuses databases that a service with sessions of this kind must not use: servers that can lose
/// events, databases without the schemas of this release, and read tables of another log.
///
/// # Errors
/// Returns the first reason to refuse, or the reason why a server does not answer.
pub async fn admit(
    databases: &DatabaseSettings,
    kind: SessionKind,
    allows_unsafe: bool,
) -> anyhow::Result<()> {
    for database in databases.all() {
        server::admit(database.url, kind, allows_unsafe).await?;
        check_migrations(database, kind).await?;
    }
    check_log(databases, kind).await
}

/// Connects once to each database, and checks its migrations and that both are of one log.
///
/// # Errors
/// Returns an error that names the server that does not answer, the migration that is missing, or
/// both logs.
pub async fn check(databases: &DatabaseSettings) -> anyhow::Result<()> {
    for database in databases.all() {
        let checked = linkledger_event_store::check_connection(database.url).await;
        checked.map_err(|error| failure::unreachable_database(database.url, &error))?;
        check_migrations(database, SessionKind::Reader).await?;
    }
    check_log(databases, SessionKind::Reader).await
}

/// Checks that the read tables follow the log.
pub(super) async fn check_log(
    databases: &DatabaseSettings,
    kind: SessionKind,
) -> anyhow::Result<()> {
    let pools = databases.pools(kind, 1)?;
    let checked = log_identity::check(&pools).await;
    pools.close().await;
    checked
}

async fn check_migrations(database: DatabaseOf<'_>, kind: SessionKind) -> anyhow::Result<()> {
    let pool = linkledger_event_store::pool(database.url, kind, 1)?;
    let checked = migrations::check(&pool, database.schemas).await;
    pool.close().await;
    checked.with_context(|| format!("cannot use the database {}", database.address()))
}
