//! Transaction on a session of a pool, which may be cancelled at any moment.
//!
//! Replaces the method `begin` of the pools of sqlx 0.9.0: if its future is dropped while BEGIN is under
//! way, the session returns to the pool within a transaction. The next statements on the session then read
//! an old snapshot, or write rows that nobody commits (sqlx, pull request 4394).

use std::ops::{Deref, DerefMut};

use sqlx::{
    Database, PgConnection, PgPool, Postgres, SqlSafeStr as _, SqlStr, pool::PoolConnection,
};
use sqlx_core::transaction::TransactionManager as _;

type Manager = <Postgres as Database>::TransactionManager;

/// Transaction on a session of a pool. A transaction that is dropped is rolled back; one that is dropped
/// while BEGIN is under way closes its session.
#[derive(Debug)]
pub struct PoolTransaction {
    session: PoolConnection<Postgres>,
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

    /// Begins a transaction by `statement`, which may also set what holds for the transaction.
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
    /// Returns an error if the database fails; the outcome of the transaction may then be unknown.
    pub async fn commit(mut self) -> sqlx::Result<()> {
        Manager::commit(&mut self.session).await
    }

    /// Rolls the transaction back, and waits until its locks are released.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn rollback(mut self) -> sqlx::Result<()> {
        Manager::rollback(&mut self.session).await
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
