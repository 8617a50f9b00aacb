//! Reads a stream from its end: people look at the newest events first.

use sqlx::PgExecutor;
use time::OffsetDateTime;

use super::{EventRow, ListedEvent, RecordedEvent};
use linkledger_core::{event::Subject, shard::Shard};

/// A part of a stream, read from its end.
#[derive(Debug, Clone, Copy)]
pub struct StreamPart {
    /// Shard of the stream.
    pub shard: Shard,
    /// Link or account whose stream is read.
    pub subject: Subject,
    /// Only events with a lower version.
    pub before: i64,
    /// Only events that were recorded earlier.
    pub recorded_before: Option<OffsetDateTime>,
    /// Maximal number of events.
    pub limit: i64,
}

impl StreamPart {
    /// Returns the part with the newest events of a stream.
    pub const fn newest(shard: Shard, subject: Subject, limit: i64) -> Self {
        Self {
            shard,
            subject,
            before: i64::MAX,
            recorded_before: None,
            limit,
        }
    }
}

/// Reads the newest events of a part of a stream, newest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_stream_backwards(
    executor: impl PgExecutor<'_>,
    part: &StreamPart,
) -> sqlx::Result<Vec<RecordedEvent>> {
    let rows = rows_backwards(executor, part).await?;
    rows.into_iter().map(EventRow::into_event).collect()
}

/// Reads like [`read_stream_backwards`], for lists that operators see.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_stream_backwards(
    executor: impl PgExecutor<'_>,
    part: &StreamPart,
) -> sqlx::Result<Vec<ListedEvent>> {
    let rows = rows_backwards(executor, part).await?;
    rows.into_iter().map(EventRow::into_listed).collect()
}

async fn rows_backwards(
    executor: impl PgExecutor<'_>,
    part: &StreamPart,
) -> sqlx::Result<Vec<EventRow>> {
    sqlx::query_as!(
        EventRow,
        r#"
        SELECT shard, position, stream_id, version, account_id, event_id, type AS "event_type",
               schema_version, payload::text AS "payload!",
               metadata::text AS "metadata!", recorded_at
        FROM event_store.events
        WHERE shard = $1 AND stream_id = $2 AND version < $3
          AND ($4::timestamptz IS NULL OR recorded_at < $4)
        ORDER BY version DESC
        LIMIT $5
        "#,
        part.shard.number(),
        part.subject.stream_id(),
        part.before,
        part.recorded_before,
        part.limit
    )
    .fetch_all(executor)
    .await
}
