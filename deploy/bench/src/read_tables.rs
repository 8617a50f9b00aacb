//! The read tables of a log, made by Postgres alone: the baseline of the projector.
//!
//! The log must consist of grants and creates only, as in the data sets. The rows equal the rows of
//! the projector in every column.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use linkledger_projector::read_models::{Projection, tables};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// Statements that fill the tables in the search path.
const ROWS: &str = include_str!("read_tables/rows.sql");
/// Statements that make the tables in the schema `bare`.
const BARE: &str = include_str!("read_tables/bare.sql");
/// Statements that make the indexes of these tables.
const INDEXES: &str = include_str!("read_tables/indexes.sql");

/// A session on the database.
#[derive(Debug)]
pub struct ReadTables(PgConnection);

impl ReadTables {
    /// Opens the session.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let connection = PgConnection::connect(url).await;
        let mut this = Self(connection.context("can't reach the database")?);
        // The services turn jit off as well. Memory sizes are set for the whole server.
        this.run("SET jit = off").await?;
        Ok(this)
    }

    /// Empties the read tables, and sets the checkpoints back to the beginning.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn empty(&mut self) -> anyhow::Result<()> {
        let tables = Projection::ALL.into_iter().flat_map(tables);
        let tables: Vec<_> = tables
            .map(|table| format!("read_model.{}", table.name))
            .collect();
        let empty = format!(
            "TRUNCATE {}; UPDATE read_model.checkpoints SET position = 0",
            tables.join(", ")
        );
        self.run(&empty).await
    }

    /// Returns the number of events in the log.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn events(&mut self) -> anyhow::Result<i64> {
        let statement = "SELECT sum(head)::bigint FROM event_store.log_shards";
        Ok(sqlx::query_scalar(statement).fetch_one(&mut self.0).await?)
    }

    /// Returns the number of events that every read model has applied.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn applied(&mut self) -> anyhow::Result<i64> {
        let statement = "
            SELECT sum(position)::bigint FROM (
                SELECT min(position) AS position FROM read_model.checkpoints
                WHERE role = 'live' GROUP BY shard
            ) AS floors";
        Ok(sqlx::query_scalar(statement).fetch_one(&mut self.0).await?)
    }

    /// Fills the existing tables with their indexes, in one transaction; returns the duration.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement.
    pub async fn fill(&mut self) -> anyhow::Result<Duration> {
        self.timed(&format!("SET search_path = read_model; {ROWS}"))
            .await
    }

    /// Fills tables without indexes and makes the indexes afterwards, in one transaction; returns
    /// the duration.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses a statement, for instance because the tables exist.
    pub async fn fill_bare(&mut self) -> anyhow::Result<Duration> {
        self.timed(&format!("{BARE} SET search_path = bare; {ROWS} {INDEXES}"))
            .await
    }

    async fn timed(&mut self, statements: &str) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        self.run(statements).await?;
        Ok(begun.elapsed())
    }

    /// Runs several statements, which are one transaction.
    async fn run(&mut self, statements: &str) -> anyhow::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statements))
            .execute(&mut self.0)
            .await
            .with_context(|| format!("refused: {statements}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
