//! A Postgres that counts, and forgets everything when the program ends.

use std::fs;

use anyhow::Context as _;
use linkledger_core::{
    event_store::{self, SessionKind},
    migrations,
    postgres_server::{PostgresOptions, PostgresServer},
};
use sqlx::PgPool;
use tempfile::TempDir;

use crate::wire::Wire;

const DATABASE: &str = "cost";
const ANYBODY: &str = "host all all 127.0.0.1/32 trust\n";
/// Nothing may write of its own accord, and no checkpoint may put whole pages into the
/// write-ahead log.
const SETTINGS: [(&str, &str); 5] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.track", "top"),
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1d"),
    ("max_wal_size", "8GB"),
];

/// The running server with one migrated database.
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
            durable: false,
        })
        .await?;
        server.create_database_if_missing(DATABASE).await?;
        let migrating = event_store::pool(&server.url(DATABASE), SessionKind::Migration, 1)?;
        migrations::run(&migrating).await?;
        // Under callgrind a proof of the password takes longer than a session may take to begin.
        fs::write(server.cluster_dir().join("pg_hba.conf"), ANYBODY)?;
        for statement in [
            "SELECT pg_reload_conf()",
            "CREATE EXTENSION pg_stat_statements",
        ] {
            let done = sqlx::query(statement).execute(&migrating).await;
            done.with_context(|| format!("{statement}: refused"))?;
        }
        migrating.close().await;
        Ok(Self {
            server,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(DATABASE)
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.server.stop().await
    }
}

/// The counters of the server, and two ways to it.
pub(crate) struct Counters {
    /// Sessions whose work counts as anybody's: used between countings only.
    pub(crate) pool: PgPool,
    /// Counts the round trips of whoever uses its address.
    pub(crate) wire: Wire,
    /// The address at which nobody counts.
    pub(crate) url: String,
}

/// What some rounds of work have cost the database.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    /// Statements that were executed in each round, as often as they were.
    pub(crate) statements: Vec<String>,
    /// Round trips through the wire in each round.
    pub(crate) round_trips: i64,
    /// Of all rounds.
    pub(crate) wal_bytes: i64,
}

impl Counters {
    pub(crate) fn of(url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            pool: event_store::pool(url, SessionKind::Reader, 1)?,
            wire: Wire::to(url)?,
            url: url.to_owned(),
        })
    }

    /// Sessions whose round trips are counted, and which may be as slow as callgrind makes them.
    pub(crate) fn counted_pool(&self, kind: SessionKind, connections: u32) -> sqlx::Result<PgPool> {
        let pool = event_store::pool(self.wire.url(), kind, connections)?;
        let options = event_store::session_options(self.wire.url(), kind)?;
        pool.set_connect_options(options.options([
            ("idle_in_transaction_session_timeout", "0"),
            ("lock_timeout", "0"),
            ("statement_timeout", "0"),
        ]));
        Ok(pool)
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

    /// What was spent in so many rounds. What happened less often than there were rounds, such as
    /// what is due once a second, is no part of a round.
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
            // What follows an answer may fall into the next round.
            round_trips: (round_trips + rounds / 2) / rounds,
            wal_bytes,
        })
    }

    /// How often a redirect was looked up in its read table, since the counters began anew.
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

/// Where the counters stood at its begin.
pub(crate) struct Counting {
    wal_begin: i64,
    round_trips_begin: i64,
}
