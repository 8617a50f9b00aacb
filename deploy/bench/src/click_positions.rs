//! Progress of the aggregation of clicks, as its positions in Postgres show it.

use anyhow::Context as _;
use sqlx::{Connection as _, PgConnection};

/// A session on the database of the statistics.
#[derive(Debug)]
pub struct ClickPositions(PgConnection);

/// Position of the aggregation in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedTo {
    /// Partition of the topic.
    pub partition: u8,
    /// Offset before which every record is counted.
    pub next_offset: i64,
}

impl ClickPositions {
    /// Opens the session.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let connection = PgConnection::connect(url).await;
        Ok(Self(connection.context("can't reach the database")?))
    }

    /// Pauses the aggregation, before clicks are published: the next records are not counted.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn pause(&mut self) -> anyhow::Result<()> {
        sqlx::query("UPDATE clicks.positions SET paused_at = now()")
            .execute(&mut self.0)
            .await?;
        Ok(())
    }

    /// Counts records whose codes are of this key.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn set_record_key(&mut self, key: &[u8]) -> anyhow::Result<()> {
        sqlx::query("UPDATE event_store.log_meta SET click_record_key = $1")
            .bind(key)
            .execute(&mut self.0)
            .await?;
        Ok(())
    }

    /// Returns the number of counted records.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn counted(&mut self) -> anyhow::Result<i64> {
        let statement = "SELECT sum(next_offset)::bigint FROM clicks.positions";
        let counted = sqlx::query_scalar(statement);
        Ok(counted.fetch_one(&mut self.0).await?)
    }

    /// Returns the positions of all partitions, in one snapshot.
    ///
    /// # Errors
    /// Returns an error if Postgres refuses the statement.
    pub async fn positions(&mut self) -> anyhow::Result<Vec<CountedTo>> {
        let statement = "SELECT partition, next_offset FROM clicks.positions";
        let rows: Vec<(i16, i64)> = sqlx::query_as(statement).fetch_all(&mut self.0).await?;
        let positions = rows.into_iter().map(|(partition, next_offset)| {
            Ok(CountedTo {
                partition: u8::try_from(partition)?,
                next_offset,
            })
        });
        positions.collect()
    }
}
