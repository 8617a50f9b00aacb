//! `command-api migrate`: runs the migrations of all schemas, each on the database of its schema.

use anyhow::{Context as _, ensure};
use linkledger_event_store::{
    SessionKind,
    errors::is_lock_timeout,
    migrations::{self, Schema},
};
use linkledger_service::{
    databases::{DatabaseOf, DatabaseSettings, Databases},
    log_identity,
};
use serde_json::json;
use sqlx::{PgPool, migrate::MigrateError};

use super::{LogAndReadOptions, connect, print};

/// Runs the pending migrations, and stores which log the read tables follow.
pub(super) async fn run(options: &LogAndReadOptions) -> anyhow::Result<()> {
    let settings = &options.database;
    let databases = settings.all();
    let mut pools = Vec::with_capacity(databases.len());
    for database in &databases {
        let pool = connect(database.url, SessionKind::Migration, 1).await?;
        ensure_none_is_elsewhere(database, &pool, settings).await?;
        pools.push(pool);
    }
    // The database of the log is the first one, the database of the read tables the last one.
    let of_both = Databases {
        log: pools[0].clone(),
        read: pools[pools.len() - 1].clone(),
    };
    // A foreign database must not be changed.
    log_identity::check_before_migration(&of_both).await?;
    for (database, pool) in databases.iter().zip(&pools) {
        let migrated = migrations::run(pool, database.schemas).await;
        migrated.map_err(|error| explain(&error))?;
    }
    log_identity::adopt(&of_both).await?;
    let lines = databases.iter().map(|database| {
        let schemas: Vec<_> = database.schemas.iter().map(|it| it.name()).collect();
        let (schemas, address) = (schemas.join(", "), database.address());
        format!("The database {address} is up to date: schema {schemas}.")
    });
    let lines: Vec<_> = lines.collect();
    print(
        options.json,
        &json!({ "migrated": true }),
        &lines.join("\n"),
    )
}

/// Refuses to create a log or read tables where the other ones are, unless an address asks for them:
/// they are probably on another server, whose address was forgotten, or two addresses are swapped.
async fn ensure_none_is_elsewhere(
    database: &DatabaseOf<'_>,
    pool: &PgPool,
    settings: &DatabaseSettings,
) -> anyhow::Result<()> {
    let has_log = exists(pool, "event_store.log_shards").await?;
    let has_read_tables = exists(pool, "read_model.checkpoints").await?;
    let has_schema = |schema| database.schemas.contains(&schema);
    match (
        has_schema(Schema::EventStore),
        has_schema(Schema::ReadModel),
    ) {
        (true, false) => ensure!(
            has_log || !has_read_tables,
            "the database of the log has read tables, and no log: the addresses of log and read tables \
             are probably swapped"
        ),
        (false, true) => ensure!(
            has_read_tables || !has_log,
            "the database of the read tables has a log, and no read tables: READ_DATABASE_URL is \
             probably the address of a log; give the address of the read tables"
        ),
        _ => {
            if has_log && !has_read_tables && settings.read_database_url.is_none() {
                let heads = linkledger_event_store::log::heads(pool).await;
                let heads = heads.context("cannot read the heads of the log; retry `migrate`")?;
                ensure!(
                    heads.iter().all(|head| *head == 0),
                    "the log has events, and its database has no read tables: set READ_DATABASE_URL to \
                     the address of their server, or to the address of this database to create them here"
                );
            }
            ensure!(
                has_log || !has_read_tables || settings.log_database_url.is_some(),
                "the database has read tables, and no log: set LOG_DATABASE_URL to the address of the \
                 log, or to the address of this database to create a log here"
            );
        }
    }
    Ok(())
}

async fn exists(pool: &PgPool, table: &str) -> anyhow::Result<bool> {
    let exists = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(table);
    let exists: sqlx::Result<bool> = exists.fetch_one(pool).await;
    exists.context("cannot read the schemas of the database; retry `migrate`")
}

fn explain(error: &MigrateError) -> anyhow::Error {
    if let MigrateError::ExecuteMigration(cause, version) = error
        && is_lock_timeout(cause)
    {
        return anyhow::anyhow!(
            "migration {version} timed out waiting for a lock on a table that another transaction \
             uses, so that the services are not blocked; the migration was rolled back: retry \
             `migrate` when the other transaction has ended"
        );
    }
    // The text of the error already contains the texts of its sources.
    anyhow::anyhow!("{error}")
}
