//! Transaction on a session of a pool, which may be cancelled at any moment.
//!
//! Replaces the method `begin` of the pools of sqlx 0.9.0: if its future is dropped while BEGIN is under
//! way, the session returns to the pool within a transaction. The next statements then run in that
//! transaction: nobody commits their writes, their locks stay, and reads may show an old snapshot. A release
//! of sqlx with pull request 4394 (launchbadge/sqlx) makes [`PoolTransaction`] superfluous.

use std::ops::{Deref, DerefMut};

use sqlx::{
    Connection as _, Database, PgConnection, PgPool, Postgres, SqlSafeStr as _, SqlStr,
    pool::PoolConnection,
};
use sqlx_core::transaction::TransactionManager as _;
use time::OffsetDateTime;

type Manager = <Postgres as Database>::TransactionManager;

/// Beginning of a transaction that reads one snapshot.
pub(super) const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Reads the clock of the database, truncated to the millisecond.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn database_now(tx: &mut PgConnection) -> sqlx::Result<OffsetDateTime> {
    sqlx::query_scalar!(r#"SELECT date_trunc('milliseconds', clock_timestamp()) AS "now!""#)
        .fetch_one(tx)
        .await
}

/// Transaction on a session of a pool. A dropped transaction is rolled back. If BEGIN fails or is cancelled,
/// the session is closed; the server ends the transaction when it notices.
#[derive(Debug)]
pub struct PoolTransaction {
    session: PoolConnection<Postgres>,
    /// False until the answer to BEGIN was read.
    has_begun: bool,
}

impl PoolTransaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// Returns an error if the pool has no session before its timeout, or the database fails.
    pub async fn begin(pool: &PgPool) -> sqlx::Result<Self> {
        Self::begin_as(pool, None).await
    }

    /// Begins a transaction with `statement`, a BEGIN that may set the isolation level and timeouts.
    ///
    /// # Errors
    /// Returns an error if the pool has no session before its timeout, or the database fails.
    pub async fn begin_with(pool: &PgPool, statement: &'static str) -> sqlx::Result<Self> {
        Self::begin_as(pool, Some(statement.into_sql_str())).await
    }

    async fn begin_as(pool: &PgPool, statement: Option<SqlStr>) -> sqlx::Result<Self> {
        let mut transaction = Self {
            session: pool.acquire().await?,
            has_begun: false,
        };
        Manager::begin(&mut transaction.session, statement).await?;
        transaction.has_begun = true;
        Ok(transaction)
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if a SAVEPOINT in the transaction was cancelled: sqlx rolls
    /// the whole transaction back then.
    /// After an error of the database, or a cancelled commit, the outcome may be unknown.
    pub async fn commit(mut self) -> sqlx::Result<()> {
        if !self.session.is_in_transaction() {
            let error = "a cancelled SAVEPOINT has rolled the transaction back";
            return Err(sqlx::Error::Protocol(error.into()));
        }
        Manager::commit(&mut self.session).await
    }

    /// Rolls the transaction back, and waits until its locks are released.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn rollback(mut self) -> sqlx::Result<()> {
        Manager::rollback(&mut self.session).await?;
        // A cancelled SAVEPOINT has queued a ROLLBACK, which must be answered.
        self.session.flush().await
    }
}

impl Drop for PoolTransaction {
    fn drop(&mut self) {
        if self.has_begun {
            // Does nothing after a commit or a rollback.
            Manager::start_rollback(&mut self.session);
        } else {
            self.session.close_on_drop();
        }
    }
}

impl Deref for PoolTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &Self::Target {
        &self.session
    }
}

impl DerefMut for PoolTransaction {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.session
    }
}
