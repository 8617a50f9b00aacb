//! A Postgres that counts its work; its data are lost when the program ends.

use std::fs;

use anyhow::Context as _;
use linkledger_bench::data_set::DataSet;
use linkledger_event_store::{
    SessionKind,
    migrations::{self, Schema},
};
use linkledger_servers::postgres_server::{PostgresOptions, PostgresServer};
use sqlx::PgPool;
use tempfile::TempDir;

use crate::wire::Wire;

const DATABASE: &str = "cost";
const LARGE_DATABASE: &str = "cost_large";
const ANYBODY: &str = "host all all 127.0.0.1/32 trust\n";
/// Rows of the large database: enough that a row has an index page of its own, if the index is in random order.
const LARGE_STORE: DataSet = DataSet::new(2_000, 50);
/// Settings that prevent background writes, and checkpoints that would put whole pages into the
/// write-ahead log.
const SETTINGS: [(&str, &str); 7] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.track", "top"),
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1d"),
    ("max_wal_size", "8GB"),
    ("fsync", "off"),
    ("synchronous_commit", "off"),
];

/// The running server with two migrated databases: a small one, and a large one with [`LARGE_STORE`].
pub(crate) struct CountingServer {
    server: PostgresServer,
    _folder: TempDir,
}

impl CountingServer {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("linkledger-cost.")
            .tempdir_in("/tmp")?;
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let server = PostgresServer::start(PostgresOptions {
            data_dir: folder.path().join("postgres"),
            settings: settings.into(),
            // Without durability no whole pages would be logged.
            durable: true,
        })
        .await?;
        let large = migrated(&server, LARGE_DATABASE).await?;
        large.close().await;
        LARGE_STORE.fill(&server.url(LARGE_DATABASE)).await?;
        let migrating = migrated(&server, DATABASE).await?;
        // Under callgrind a password check takes longer than the timeout of a new session.
        fs::write(server.cluster_dir().join("pg_hba.conf"), ANYBODY)?;
        sqlx::query("SELECT pg_reload_conf()")
            .execute(&migrating)
            .await?;
        migrating.close().await;
        Ok(Self {
            server,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(DATABASE)
    }

    pub(crate) fn large_url(&self) -> String {
        self.server.url(LARGE_DATABASE)
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.server.stop().await
    }
}

/// Makes a database with all migrations whose statements are counted, and returns the session of the migrations.
async fn migrated(server: &PostgresServer, database: &str) -> anyhow::Result<PgPool> {
    server.create_database_if_missing(database).await?;
    let migrating = linkledger_event_store::pool(&server.url(database), SessionKind::Migration, 1)?;
    migrations::run(&migrating, &Schema::ALL).await?;
    sqlx::query("CREATE EXTENSION pg_stat_statements")
        .execute(&migrating)
        .await
        .context("cannot count statements")?;
    Ok(migrating)
}

/// The counters of the server, and two ways to connect.
pub(crate) struct Counters {
    /// Sessions whose statements are not counted.
    pub(crate) pool: PgPool,
    /// Proxy that counts the round trips of its clients.
    pub(crate) wire: Wire,
    /// Address of the server without the proxy.
    pub(crate) url: String,
}

/// Cost of some rounds for the database.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    /// Statements that each round executed; a statement that was executed twice occurs twice.
    pub(crate) statements: Vec<String>,
    /// Round trips through the proxy in each round.
    pub(crate) round_trips: i64,
    /// Bytes of the write-ahead log of all rounds.
    pub(crate) wal_bytes: i64,
}

impl Counters {
    pub(crate) fn of(url: &str) -> anyhow::Result<Self> {
        let pool = linkledger_event_store::pool(url, SessionKind::Reader, 1)?;
        let options = linkledger_event_store::session_options(url, SessionKind::Reader)?;
        pool.set_connect_options(options.options([("pg_stat_statements.track", "none")]));
        Ok(Self {
            pool,
            wire: Wire::to(url)?,
            url: url.to_owned(),
        })
    }

    /// Makes a pool whose round trips are counted, with timeouts long enough for callgrind.
    pub(crate) fn counted_pool(&self, kind: SessionKind, connections: u32) -> sqlx::Result<PgPool> {
        let pool = linkledger_event_store::pool(self.wire.url(), kind, connections)?;
        let options = linkledger_event_store::session_options(self.wire.url(), kind)?;
        pool.set_connect_options(options.options([
            ("idle_in_transaction_session_timeout", "0"),
            ("lock_timeout", "0"),
            ("statement_timeout", "0"),
        ]));
        Ok(pool)
    }

    /// Makes a checkpoint, after which the first change of each page logs the whole page.
    pub(crate) async fn checkpoint(&self) -> sqlx::Result<()> {
        sqlx::query("CHECKPOINT").execute(&self.pool).await?;
        Ok(())
    }

    /// Begins to count.
    pub(crate) async fn begin(&self) -> anyhow::Result<Counting> {
        let counting = Counting {
            wal_begin: self.wal_end().await?,
            round_trips_begin: self.wire.round_trips(),
        };
        sqlx::query("SELECT pg_stat_statements_reset()")
            .execute(&self.pool)
            .await?;
        Ok(counting)
    }

    /// Does work between two rounds, and leaves the write-ahead log of the work out of the count.
    pub(crate) async fn uncounted(
        &self,
        counting: &mut Counting,
        work: impl Future<Output = sqlx::Result<()>>,
    ) -> sqlx::Result<()> {
        let wal_begin = self.wal_end().await?;
        work.await?;
        counting.wal_begin += self.wal_end().await? - wal_begin;
        Ok(())
    }

    /// Returns the cost of `rounds` rounds. A statement that was executed less often than there
    /// were rounds, such as a statement once a second, does not count.
    pub(crate) async fn end(&self, counting: Counting, rounds: usize) -> anyhow::Result<Spent> {
        let rounds = i64::try_from(rounds)?;
        let wal_bytes = self.wal_end().await? - counting.wal_begin;
        let round_trips = self.wire.round_trips() - counting.round_trips_begin;
        let statements = sqlx::query_scalar(
            "SELECT query FROM pg_stat_statements, generate_series(1, calls / $1)
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
             ORDER BY query",
        )
        .bind(rounds)
        .fetch_all(&self.pool)
        .await?;
        Ok(Spent {
            statements,
            // The server may finish work for a round after the response, in the next round.
            round_trips: (round_trips + rounds / 2) / rounds,
            wal_bytes,
        })
    }

    /// Returns the number of redirects that were looked up in the read table since the counters
    /// were reset.
    pub(crate) async fn redirects_loaded(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar(
            "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
             WHERE query LIKE '%FROM read_model.redirects %'",
        )
        .fetch_one(&self.pool)
        .await
    }

    async fn wal_end(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
            .fetch_one(&self.pool)
            .await
    }
}

/// Values of the counters at the beginning.
pub(crate) struct Counting {
    wal_begin: i64,
    round_trips_begin: i64,
}
