//! The migrations of both schemas: run by `command-api migrate`, checked by all other processes.

use std::collections::HashMap;

use sqlx::{
    PgPool,
    migrate::{MigrateError, Migrator},
};

/// The database does not have the schema that this release needs.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A migration was not run.
    #[error("migration {version} of `{schema}` is pending; run `command-api migrate`")]
    Pending {
        /// Schema of the migration.
        schema: &'static str,
        /// Version of the migration.
        version: i64,
    },
    /// The migration's file was changed after it was run.
    #[error(
        "migration {version} of `{schema}` differs from the one that was run; use the release that ran it"
    )]
    Changed {
        /// Schema of the migration.
        schema: &'static str,
        /// Version of the migration.
        version: i64,
    },
    /// The database did not answer.
    #[error("cannot read the applied migrations")]
    Database(#[from] sqlx::Error),
}

const EVENT_STORE: &str = "event_store";
const READ_MODEL: &str = "read_model";

fn sets() -> [(&'static str, Migrator); 2] {
    let mut sets = [
        (EVENT_STORE, sqlx::migrate!("../migrations/event_store")),
        (READ_MODEL, sqlx::migrate!("../migrations/read_model")),
    ];
    for (schema, migrator) in &mut sets {
        migrator.dangerous_set_table_name(format!("{schema}._sqlx_migrations"));
        migrator.create_schema(*schema);
    }
    sets
}

/// Runs pending migrations. Other processes that run migrations wait.
///
/// # Errors
/// Returns an error if a migration fails or was changed after it was run.
pub async fn run(pool: &PgPool) -> Result<(), MigrateError> {
    for (_, migrator) in sets() {
        migrator.run(pool).await?;
    }
    Ok(())
}

/// Checks that all migrations of this release were run. Later migrations are accepted: they must be
/// compatible with the release before.
///
/// # Errors
/// Returns the first migration that is pending or changed.
pub async fn check(pool: &PgPool) -> Result<(), SchemaError> {
    for (schema, migrator) in sets() {
        let applied = applied_checksums(pool, schema).await?;
        for migration in migrator.iter() {
            let version = migration.version;
            match applied.get(&version) {
                None => return Err(SchemaError::Pending { schema, version }),
                Some(checksum) if migration.checksum != *checksum => {
                    return Err(SchemaError::Changed { schema, version });
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

async fn applied_checksums(pool: &PgPool, schema: &str) -> sqlx::Result<HashMap<i64, Vec<u8>>> {
    let table = format!("{schema}._sqlx_migrations");
    let exists: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(&table)
        .fetch_one(pool)
        .await?;
    if !exists {
        return Ok(HashMap::new());
    }
    let statement = format!("SELECT version, checksum FROM {table} WHERE success");
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().collect())
}
