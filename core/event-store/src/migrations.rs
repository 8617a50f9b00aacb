//! The migrations of all schemas: run by `command-api migrate`, checked by all other processes. A database
//! has the schema of the log, the schemas of the read side, or all.

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

linkledger_core::named_enum! {
    /// Schema with migrations of its own.
    pub enum Schema {
        /// The log, accounts, keys and slugs.
        EventStore = "event_store",
        /// The read tables with their checkpoints.
        ReadModel = "read_model",
        /// Statistics of clicks, on the server of the read tables.
        Clicks = "clicks",
    }
}

impl Schema {
    /// Schemas of the server of the read tables.
    pub const READ: [Self; 2] = [Self::ReadModel, Self::Clicks];

    fn migrator(self) -> Migrator {
        let mut migrator = match self {
            Self::EventStore => sqlx::migrate!("../../migrations/event_store"),
            Self::ReadModel => sqlx::migrate!("../../migrations/read_model"),
            Self::Clicks => sqlx::migrate!("../../migrations/clicks"),
        };
        let schema = self.name();
        migrator.dangerous_set_table_name(format!("{schema}._sqlx_migrations"));
        migrator.create_schema(schema);
        // The stack migrates at each start: after a step back to the release before, later migrations stay.
        migrator.set_ignore_missing(true);
        migrator
    }
}

/// Runs pending migrations of these schemas. Other processes that run migrations wait. Later migrations are accepted,
/// as [`check`] does.
///
/// # Errors
/// Returns an error if a migration fails or was changed after it was run.
pub async fn run(pool: &PgPool, schemas: &[Schema]) -> Result<(), MigrateError> {
    for schema in schemas {
        schema.migrator().run(pool).await?;
    }
    Ok(())
}

/// Checks that all migrations of these schemas in this release were run. Later migrations are accepted: they must be
/// compatible with the release before.
///
/// # Errors
/// Returns the first migration that is pending or changed.
pub async fn check(pool: &PgPool, schemas: &[Schema]) -> Result<(), SchemaError> {
    for of in schemas {
        let schema = of.name();
        let applied = applied_checksums(pool, schema).await?;
        for migration in of.migrator().iter() {
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
