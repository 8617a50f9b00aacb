//! The Postgres server of the benchmarks, with `fsync` on and settings of a server in production.

use std::{path::Path, path::PathBuf};

use anyhow::Context as _;
use linkledger_event_store::{
    SessionKind,
    migrations::{self, Schema},
};
use linkledger_servers::postgres_server::{PostgresOptions, PostgresServer};
use nix::unistd::Pid;
use sqlx::{AssertSqlSafe, Connection as _, FromRow, PgConnection, postgres::PgRow};

use crate::report::memory_mib;

/// A migrated database without rows, from which other databases are cloned.
const EMPTY: &str = "bench_empty";

/// Prefix of the databases that are not needed after a benchmark.
const COPIES: &str = "bench_";

/// Settings that `docs/deploy.md` gives to a server, besides a quarter of the memory for `shared_buffers`; all
/// settings that keep data safe have the defaults of Postgres.
const SETTINGS: [(&str, &str); 2] = [("max_wal_size", "8GB"), ("checkpoint_timeout", "30min")];

/// Compression of whole pages in the write-ahead log that `docs/deploy.md` gives to a server; some builds of Postgres
/// lack it.
const WAL_COMPRESSION: &str = "lz4";

/// Setting that makes `pg_stat_activity` show whole statements: pgbench has to run the statements
/// of the services.
const STATEMENTS_SHOWN: (&str, &str) = ("track_activity_query_size", "16384");

/// The running server.
#[derive(Debug)]
pub struct BenchServer {
    server: PostgresServer,
    data_dir: PathBuf,
}

impl BenchServer {
    /// Starts the server in the folder of the benchmarks; data sets of earlier runs still exist.
    ///
    /// # Errors
    /// Returns an error if Postgres can't be started.
    pub async fn start(data_dir: &Path) -> anyhow::Result<Self> {
        // At least the default of Postgres, where the memory is unknown.
        let shared_buffers = format!("{}MB", (memory_mib() / 4).max(128));
        let settings = SETTINGS
            .into_iter()
            .chain([STATEMENTS_SHOWN])
            .map(|(name, value)| (name.into(), value.into()))
            .chain([("shared_buffers".into(), shared_buffers)]);
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
        this.compress_wal().await?;
        this.drop_copies().await?;
        // The empty database is made again each time, since the migrations may have changed.
        this.drop_database(EMPTY).await?;
        this.server.create_database_if_missing(EMPTY).await?;
        let pool = linkledger_event_store::pool(&this.url(EMPTY), SessionKind::Migration, 1)?;
        migrations::run(&pool, &Schema::ALL).await?;
        pool.close().await;
        Ok(this)
    }

    async fn compress_wal(&self) -> anyhow::Result<()> {
        let methods = "SELECT unnest(enumvals) FROM pg_settings WHERE name = 'wal_compression'";
        let methods: Vec<String> = self.column("postgres", methods).await?;
        let method = methods.iter().find(|method| *method == WAL_COMPRESSION);
        let method = method.map_or("on", String::as_str);
        self.execute(&format!("ALTER SYSTEM SET wal_compression = '{method}'"))
            .await?;
        self.execute("SELECT pg_reload_conf()").await
    }

    /// Returns the process that is the parent of all processes of the server.
    pub fn pid(&self) -> Pid {
        self.server.pid()
    }

    /// Returns the address of a database.
    pub fn url(&self, database: &str) -> String {
        self.server.url(database)
    }

    /// Returns the folder of the benchmarks.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Makes a migrated database without rows, in place of any database with this name. Returns the
    /// address.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn empty_database(&self, name: &str) -> anyhow::Result<String> {
        self.clone_of(EMPTY, name).await
    }

    /// Copies a database that no session uses. Returns the address of the copy.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn clone_of(&self, template: &str, name: &str) -> anyhow::Result<String> {
        self.drop_database(name).await?;
        // A copy of files does not go through the write-ahead log, which is left to the load.
        self.execute(&format!(
            "CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
        ))
        .await?;
        Ok(self.url(name))
    }

    /// Returns true if there is a database with this name.
    ///
    /// # Errors
    /// Returns an error if Postgres does not answer.
    pub async fn has_database(&self, name: &str) -> anyhow::Result<bool> {
        let found = self.databases(name).await?;
        Ok(found.iter().any(|found| found == name))
    }

    /// Returns the databases whose names begin with `prefix`.
    ///
    /// # Errors
    /// Returns an error if Postgres does not answer.
    pub async fn databases(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let names = "SELECT datname::text FROM pg_database";
        let mut names: Vec<String> = self.column("postgres", names).await?;
        names.retain(|name| name.starts_with(prefix));
        Ok(names)
    }

    /// Renames a database.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn rename(&self, database: &str, name: &str) -> anyhow::Result<()> {
        self.execute(&format!("ALTER DATABASE {database} RENAME TO {name}"))
            .await
    }

    /// Returns the checksums of the migrations.
    ///
    /// # Errors
    /// Returns an error if Postgres does not answer.
    pub async fn migrations(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let checksums = "SELECT checksum FROM event_store._sqlx_migrations
             UNION ALL
             SELECT checksum FROM read_model._sqlx_migrations
             UNION ALL
             SELECT checksum FROM clicks._sqlx_migrations
             ORDER BY 1";
        self.column(EMPTY, checksums).await
    }

    /// Drops the databases that benchmarks have worked on, but no data set.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn drop_copies(&self) -> anyhow::Result<()> {
        for name in self.databases(COPIES).await? {
            if name != EMPTY {
                self.drop_database(&name).await?;
            }
        }
        Ok(())
    }

    /// Drops a database, and ends its sessions.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn drop_database(&self, name: &str) -> anyhow::Result<()> {
        self.execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .await
    }

    /// Writes changed pages to the tables, so that no checkpoint happens during a measurement.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn checkpoint(&self) -> anyhow::Result<()> {
        self.execute("CHECKPOINT").await
    }

    /// Stops the server.
    ///
    /// # Errors
    /// Returns an error if the server does not stop.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.server.stop().await
    }

    /// Returns the values of a query with one column.
    async fn column<T>(&self, database: &str, query: &'static str) -> anyhow::Result<Vec<T>>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
        T: Send + Unpin,
    {
        let mut connection = PgConnection::connect(&self.url(database)).await?;
        let rows: Vec<(T,)> = sqlx::query_as(query).fetch_all(&mut connection).await?;
        // An open session would prevent copies of the database.
        connection.close().await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
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
    fn server_settings_equal_those_of_the_documentation() {
        let page = include_str!("../../../docs/deploy.md");
        for (name, value) in super::SETTINGS {
            assert!(page.contains(&format!("\n{name} = {value}\n")), "{name}");
        }
    }
}
