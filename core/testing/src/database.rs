//! Databases of tests. A test binary has one Postgres server; each test has a separate database, a clone
//! of a template that is migrated once.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use linkledger_event_store::{
    SessionKind,
    migrations::{self, Schema},
};
use linkledger_servers::postgres_server::temporary::TemporaryPostgres;
use linkledger_service::databases::Databases;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, postgres::PgPoolOptions};
use tokio::sync::OnceCell;

use crate::{DEADLINE, POLL_INTERVAL, eventually, record};

const TEMPLATE: &str = "linkledger_template";

static SERVER: OnceCell<TemporaryPostgres> = OnceCell::const_new();
static READ_SERVER: OnceCell<TemporaryPostgres> = OnceCell::const_new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// Migrated database for one test.
pub struct TestDatabase {
    url: String,
    pool: PgPool,
}

impl TestDatabase {
    /// Creates an empty, migrated database.
    pub async fn create() -> Self {
        record::logs();
        Self::create_on(SERVER.get_or_init(start_server).await).await
    }

    /// Creates an empty, migrated database on a server that the test can stop and start again.
    pub async fn with_own_server() -> (Self, TemporaryPostgres) {
        record::logs();
        let server = start_server().await;
        (Self::create_on(&server).await, server)
    }

    /// Creates two databases on two servers: one for the log, and one for the read tables, with one
    /// schema each.
    pub async fn create_two() -> (Self, Self) {
        let log = Self::create_on(SERVER.get_or_init(start_server).await).await;
        let read = Self::create_on(READ_SERVER.get_or_init(start_server).await).await;
        execute(
            log.url(),
            "DROP SCHEMA read_model, clicks CASCADE".to_owned(),
        )
        .await;
        execute(read.url(), "DROP SCHEMA event_store CASCADE".to_owned()).await;
        (log, read)
    }

    async fn create_on(server: &TemporaryPostgres) -> Self {
        record::logs();
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let statement = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}");
        execute(&server.url("postgres"), statement).await;
        let url = server.url(&name);
        let options = linkledger_event_store::session_options(&url, SessionKind::Reader);
        // A busy machine takes long: for the set-up of a test, and for operators' commands that a test calls.
        let patient = [("statement_timeout", "2min")];
        let options = options.expect("a valid address").application_name("test");
        let options = options.options(patient);
        let pool = PgPoolOptions::new()
            .max_connections(5)
            .connect_lazy_with(options);
        Self { url, pool }
    }

    /// Returns a second handle of the same database.
    #[must_use]
    pub fn share(&self) -> Self {
        Self {
            url: self.url.clone(),
            pool: self.pool.clone(),
        }
    }

    /// Returns the databases for code that may use two of them.
    pub fn databases(&self) -> Databases {
        self.pool.clone().into()
    }

    /// Returns the URL of the database, with the rights of the owner.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a pool of sessions with the application name `test`.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}

/// Database on a server with a streaming replica, both for one test alone.
pub struct ReplicatedDatabase {
    /// Database of the primary, empty and migrated.
    pub primary: TestDatabase,
    /// Sessions with the replica.
    pub replica: PgPool,
    /// URL of the database on the replica.
    pub replica_url: String,
    _servers: [TemporaryPostgres; 2],
}

impl ReplicatedDatabase {
    /// Starts both servers, and waits until the replica has the database.
    pub async fn create() -> Self {
        let servers = TemporaryPostgres::start_with_replica().await;
        let (server, copy) = servers.expect("two Postgres servers for tests");
        create_template(&server).await;
        let primary = TestDatabase::create_on(&server).await;
        let name = primary.url().rsplit('/').next().expect("a name");
        let replica_url = copy.url(name);
        let options = linkledger_event_store::session_options(&replica_url, SessionKind::Reader);
        let replica = PgPoolOptions::new()
            .max_connections(2)
            .connect_lazy_with(options.expect("a valid address"));
        let replicated = Self {
            primary,
            replica,
            replica_url,
            _servers: [server, copy],
        };
        replicated.wait_for_replica().await;
        replicated
    }

    /// Waits until the replica has replayed everything that the primary has written.
    pub async fn wait_for_replica(&self) {
        eventually("the replica is caught up", || async {
            self.is_caught_up().await.ok()?.then_some(())
        })
        .await;
    }

    /// Waits until the last transaction that the replica has replayed is older than `lag`.
    pub async fn wait_for_lag(&self, lag: Duration) {
        eventually("the replica lags", || async {
            let age = "SELECT now() - pg_last_xact_replay_timestamp() > make_interval(secs => $1)";
            let is_older = sqlx::query_scalar(age).bind(lag.as_secs_f64());
            let is_older: bool = is_older.fetch_one(&self.replica).await.ok()?;
            is_older.then_some(())
        })
        .await;
    }

    /// Pauses the replay: the replica answers from the state of this moment.
    pub async fn pause(&self) {
        self.set_replay("SELECT pg_wal_replay_pause()", "paused")
            .await;
    }

    /// Resumes the replay.
    pub async fn resume(&self) {
        self.set_replay("SELECT pg_wal_replay_resume()", "not paused")
            .await;
    }

    async fn set_replay(&self, statement: &'static str, state: &str) {
        let done = sqlx::query(statement).execute(&self.replica).await;
        done.expect("the replica answers");
        eventually("the replay has the state", || async {
            let now = sqlx::query_scalar("SELECT pg_get_wal_replay_pause_state()");
            let now: String = now.fetch_one(&self.replica).await.ok()?;
            (now == state).then_some(())
        })
        .await;
    }

    async fn is_caught_up(&self) -> sqlx::Result<bool> {
        let written = sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text");
        let written: String = written.fetch_one(self.primary.pool()).await?;
        let replayed = "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn";
        let replayed = sqlx::query_scalar(replayed).bind(written);
        replayed.fetch_one(&self.replica).await
    }
}

async fn start_server() -> TemporaryPostgres {
    let server = TemporaryPostgres::start()
        .await
        .expect("a Postgres server for tests");
    create_template(&server).await;
    server
}

async fn create_template(server: &TemporaryPostgres) {
    execute(
        &server.url("postgres"),
        format!("CREATE DATABASE {TEMPLATE}"),
    )
    .await;
    let url = server.url(TEMPLATE);
    let pool =
        linkledger_event_store::pool(&url, SessionKind::Migration, 1).expect("a valid address");
    migrations::run(&pool, &Schema::ALL)
        .await
        .expect("the migrations run");
    pool.close().await;
}

async fn execute(url: &str, statement: String) {
    let mut connection = PgConnection::connect(url)
        .await
        .expect("the test server answers");
    sqlx::query(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await
        .expect("the statement succeeds");
    connection.close().await.expect("the session ends");
}

/// Ends the sessions of a pool, and waits until they have ended: a session flushes its statistics at its
/// end at the latest, and otherwise seconds after the work. The caller must hold no session of the pool.
///
/// # Panics
/// Panics if the database does not answer, or if a session stays in use.
pub async fn flush_statistics(pool: &PgPool) {
    let mut sessions: Vec<i32> = Vec::new();
    let close_all = async {
        // A session that was just used is not idle yet: the pool takes it back in a task of its own.
        while pool.size() > 0 {
            match pool.try_acquire() {
                Some(mut session) => {
                    let id = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *session);
                    sessions.push(id.await.expect("the database answers"));
                    session.close().await.expect("the session ends");
                }
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    };
    let closed = tokio::time::timeout(DEADLINE, close_all).await;
    closed.expect("no session stays in use");
    eventually("the sessions have ended", async || {
        let remaining: i64 =
            sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)")
                .bind(&sessions)
                .fetch_one(pool)
                .await
                .expect("the database answers");
        (remaining == 0).then_some(())
    })
    .await;
}
