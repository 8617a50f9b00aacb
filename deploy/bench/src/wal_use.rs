//! Write-ahead log of the Postgres server during a measurement.

use anyhow::Context as _;
use sqlx::{Connection as _, PgConnection};

/// Write-ahead log since the start of the server, or between two readings.
#[derive(Debug, Clone, Copy)]
pub struct WalUse {
    /// Bytes.
    pub bytes: f64,
    /// Records.
    pub records: f64,
    /// Full-page images: after a checkpoint, the first change of a page logs the whole page.
    pub page_images: f64,
}

impl WalUse {
    /// Reads the counters of all databases (`pg_stat_wal`). Open sessions may hold some of their changes back:
    /// a stack under measurement is stopped first.
    ///
    /// # Errors
    /// Returns an error if Postgres does not answer.
    pub async fn read(url: &str) -> anyhow::Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        let (bytes, records, page_images) = sqlx::query_as(
            "SELECT wal_bytes::float8, wal_records::float8, wal_fpi::float8 FROM pg_stat_wal",
        )
        .fetch_one(&mut connection)
        .await
        .context("cannot read pg_stat_wal")?;
        connection.close().await?;
        Ok(Self {
            bytes,
            records,
            page_images,
        })
    }

    /// Returns the use between `earlier` and this reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes - earlier.bytes,
            records: self.records - earlier.records,
            page_images: self.page_images - earlier.page_images,
        }
    }
}
