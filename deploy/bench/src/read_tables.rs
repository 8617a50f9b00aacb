//! The read tables of a log, as Postgres alone can make them: what the projector is compared with.
//!
//! Of a log of grants and creates only, which is what the data sets are; their rows are those of the
//! projector, to the last column.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// Fills the tables of the search path.
const ROWS: &str = include_str!("read_tables/rows.sql");
/// Makes the tables of the schema `bare`.
const BARE: &str = include_str!("read_tables/bare.sql");
/// Makes their indexes.
const INDEXES: &str = include_str!("read_tables/indexes.sql");

/// As if no projector had ever run.
const EMPTY: &str = "
    TRUNCATE read_model.links, read_model.redirects, read_model.stopped_accounts,
             read_model.credit_entries, read_model.credit_balances;
    UPDATE read_model.checkpoints SET position = 0;
";

/// A session on the database of that address.
#[derive(Debug)]
pub struct ReadTables(PgConnection);

impl ReadTables {
    /// Connects.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let connection = PgConnection::connect(url).await;
        let mut this = Self(connection.context("can't reach the database")?);
        // As in the sessions of the services. The sizes are those that the server has for all.
        this.run("SET jit = off").await?;
        Ok(this)
    }

    /// Empties them and sets the projector back to the beginning.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn empty(&mut self) -> anyhow::Result<()> {
        self.run(EMPTY).await
    }

    /// How many events the log has.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn events(&mut self) -> anyhow::Result<i64> {
        let statement = "SELECT sum(head)::bigint FROM event_store.log_shards";
        Ok(sqlx::query_scalar(statement).fetch_one(&mut self.0).await?)
    }

    /// Up to how many events every read model has been brought.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn applied(&mut self) -> anyhow::Result<i64> {
        let statement = "
            SELECT sum(position)::bigint FROM (
                SELECT min(position) AS position FROM read_model.checkpoints
                WHERE role = 'live' GROUP BY shard
            ) AS floors";
        Ok(sqlx::query_scalar(statement).fetch_one(&mut self.0).await?)
    }

    /// Fills the tables as they are, indexes in place, in one transaction; returns how long it took.
    ///
    /// # Errors
    /// When Postgres refuses.
    pub async fn fill(&mut self) -> anyhow::Result<Duration> {
        self.timed(&format!("SET search_path = read_model; {ROWS}"))
            .await
    }

    /// Fills tables that have no index yet and makes the indexes after that, in one transaction;
    /// returns how long it took.
    ///
    /// # Errors
    /// When Postgres refuses, for instance since these tables are there.
    pub async fn fill_bare(&mut self) -> anyhow::Result<Duration> {
        self.timed(&format!("{BARE} SET search_path = bare; {ROWS} {INDEXES}"))
            .await
    }

    async fn timed(&mut self, statements: &str) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        self.run(statements).await?;
        Ok(begun.elapsed())
    }

    /// Several statements at once are one transaction.
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
