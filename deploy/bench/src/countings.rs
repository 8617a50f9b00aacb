//! The countings of clicks, as their positions in Postgres show them.

use anyhow::Context as _;
use linkledger_core::click::Counting;
use sqlx::{Connection as _, PgConnection};

/// A session on the database of the figures.
#[derive(Debug)]
pub struct Countings(PgConnection);

/// Position of a counting in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedTo {
    /// Counting.
    pub counting: Counting,
    /// Partition of the topic.
    pub partition: u8,
    /// Offset before which every record is counted.
    pub next_offset: i64,
}

impl Countings {
    /// Opens the session.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let connection = PgConnection::connect(url).await;
        Ok(Self(connection.context("can't reach the database")?))
    }

    /// Pauses countings, before clicks are published: the next records are not counted.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn pause(&mut self, countings: &[Counting]) -> anyhow::Result<()> {
        let names: Vec<&str> = countings.iter().map(|it| it.name()).collect();
        sqlx::query("UPDATE clicks.positions SET paused_at = now() WHERE counting = ANY($1)")
            .bind(names)
            .execute(&mut self.0)
            .await?;
        Ok(())
    }

    /// Returns the number of records that a counting has counted.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn counted(&mut self, counting: Counting) -> anyhow::Result<i64> {
        let statement = "SELECT sum(next_offset)::bigint FROM clicks.positions WHERE counting = $1";
        let counted = sqlx::query_scalar(statement).bind(counting.name());
        Ok(counted.fetch_one(&mut self.0).await?)
    }

    /// Returns all positions, in one snapshot.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn positions(&mut self) -> anyhow::Result<Vec<CountedTo>> {
        let statement = "SELECT counting, partition, next_offset FROM clicks.positions";
        let rows: Vec<(String, i16, i64)> =
            sqlx::query_as(statement).fetch_all(&mut self.0).await?;
        let positions = rows.into_iter().map(|(counting, partition, next_offset)| {
            Ok(CountedTo {
                counting: counting.parse()?,
                partition: u8::try_from(partition)?,
                next_offset,
            })
        });
        positions.collect()
    }
}
