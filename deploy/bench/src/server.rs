//! A Postgres server of the benchmarks' own: `fsync` on, settings of a server in production.

use std::{path::Path, path::PathBuf};

use anyhow::Context as _;
use linkledger_core::{
    event_store::{self, SessionKind},
    migrations,
    postgres_server::{PostgresOptions, PostgresServer},
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// A migrated database without rows, from which others are cloned.
const EMPTY: &str = "bench_empty";

/// With this begin the names of databases that nobody needs later.
const COPIES: &str = "bench_";

/// As `docs/deploy.md` sets a server up; what keeps data safe stays as Postgres has it.
const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "2GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("wal_compression", "on"),
];

/// Whole statements in `pg_stat_activity`: what the services run is what pgbench has to run.
const STATEMENTS_SHOWN: (&str, &str) = ("track_activity_query_size", "16384");

/// The running server.
#[derive(Debug)]
pub struct BenchServer {
    server: PostgresServer,
    data_dir: PathBuf,
}

impl BenchServer {
    /// Starts it on the folder of the benchmarks; data sets of before are still there.
    ///
    /// # Errors
    /// What Postgres lacks.
    pub async fn start(data_dir: &Path) -> anyhow::Result<Self> {
        let settings = SETTINGS
            .into_iter()
            .chain([STATEMENTS_SHOWN])
            .map(|(name, value)| (name.into(), value.into()));
        let server = PostgresServer::start(PostgresOptions {
            data_dir: data_dir.join("postgres"),
            settings: settings.collect(),
            durable: true,
        })
        .await?;
        let this = Self {
            server,
            data_dir: data_dir.to_owned(),
        };
        this.drop_copies().await?;
        // Anew each time: the migrations may have changed since.
        this.drop_database(EMPTY).await?;
        this.server.create_database_if_missing(EMPTY).await?;
        let pool = event_store::pool(&this.url(EMPTY), SessionKind::Migration, 1)?;
        migrations::run(&pool).await?;
        pool.close().await;
        Ok(this)
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        self.server.url(database)
    }

    /// The folder of the benchmarks.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// A migrated database without rows; one of that name is dropped before. Returns its address.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn empty_database(&self, name: &str) -> anyhow::Result<String> {
        self.clone_of(EMPTY, name).await
    }

    /// A copy of another database, with which nobody works meanwhile. Returns its address.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn clone_of(&self, template: &str, name: &str) -> anyhow::Result<String> {
        self.drop_database(name).await?;
        // A copy of the files does not pass through the write-ahead log, which is for the load.
        self.execute(&format!(
            "CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
        ))
        .await?;
        Ok(self.url(name))
    }

    /// Whether there is a database of that name.
    ///
    /// # Errors
    /// When Postgres can't be asked.
    pub async fn has_database(&self, name: &str) -> anyhow::Result<bool> {
        let mut connection = PgConnection::connect(&self.url("postgres")).await?;
        let found = sqlx::query("SELECT FROM pg_database WHERE datname = $1")
            .bind(name)
            .fetch_optional(&mut connection)
            .await?;
        Ok(found.is_some())
    }

    /// The databases whose names begin with that.
    ///
    /// # Errors
    /// When Postgres can't be asked.
    pub async fn databases(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let mut connection = PgConnection::connect(&self.url("postgres")).await?;
        let names = sqlx::query_scalar(
            "SELECT datname::text FROM pg_database WHERE starts_with(datname::text, $1)",
        );
        Ok(names.bind(prefix).fetch_all(&mut connection).await?)
    }

    /// Gives a database another name, which is free.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn rename(&self, database: &str, name: &str) -> anyhow::Result<()> {
        self.execute(&format!("ALTER DATABASE {database} RENAME TO {name}"))
            .await
    }

    /// The checksums of the migrations that databases here have.
    ///
    /// # Errors
    /// When Postgres can't be asked.
    pub async fn migrations(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut connection = PgConnection::connect(&self.url(EMPTY)).await?;
        let checksums = sqlx::query_scalar(
            "SELECT checksum FROM event_store._sqlx_migrations
             UNION ALL
             SELECT checksum FROM read_model._sqlx_migrations
             ORDER BY 1",
        )
        .fetch_all(&mut connection)
        .await?;
        // A session would keep the database from being copied.
        connection.close().await?;
        Ok(checksums)
    }

    /// Drops what questions have worked on, whether they were answered or broken off: all but the
    /// data sets.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn drop_copies(&self) -> anyhow::Result<()> {
        for name in self.databases(COPIES).await? {
            if name != EMPTY {
                self.drop_database(&name).await?;
            }
        }
        Ok(())
    }

    /// Drops a database, whoever uses it.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn drop_database(&self, name: &str) -> anyhow::Result<()> {
        self.execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .await
    }

    /// Writes what is dirty to the tables, so that it does not happen while something is measured.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn checkpoint(&self) -> anyhow::Result<()> {
        self.execute("CHECKPOINT").await
    }

    /// Stops the server.
    ///
    /// # Errors
    /// When it survives that.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.server.stop().await
    }

    async fn execute(&self, statement: &str) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect(&self.url("postgres")).await?;
        sqlx::query(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .with_context(|| format!("{statement}: refused"))?;
        Ok(connection.close().await?)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_settings_are_those_that_an_operator_is_told() {
        let page = include_str!("../../../docs/deploy.md");
        for (name, value) in super::SETTINGS {
            assert!(page.contains(&format!("\n{name} = {value}\n")), "{name}");
        }
    }
}
