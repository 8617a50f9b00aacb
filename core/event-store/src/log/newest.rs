//! Reads the log from its end: people look at the newest events first.

use sqlx::PgPool;
use time::OffsetDateTime;

use super::{EventRow, RecordedEvent, query_events};
use linkledger_core::{
    event::Subject,
    id::AccountId,
    shard::{Position, Shard},
};

/// A range of positions of a shard, read from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionSpan {
    /// Shard of the range.
    pub shard: Shard,
    /// Lowest position of the range.
    pub from: Position,
    /// Position right after the highest position of the range.
    pub before: Position,
}

/// Filter for the newest events of a span.
#[derive(Debug, Clone, Copy)]
pub struct NewestFilter<'a> {
    /// Account of the events, or `None` for all accounts.
    pub account_id: Option<AccountId>,
    /// Stored type of the events, or `None` for all types.
    pub event_type: Option<&'a str>,
    /// Maximal number of events of each span.
    pub limit: i64,
}

/// Reads the newest events of each span that match the filter, newest first within each span.
///
/// No index serves the filter: every event of a span is scanned until enough events are found. The
/// caller must keep the spans short.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_before(
    pool: &PgPool,
    spans: &[PositionSpan],
    wanted: NewestFilter<'_>,
) -> sqlx::Result<Vec<RecordedEvent>> {
    let shards: Vec<i16> = spans.iter().map(|span| span.shard.number()).collect();
    let from: Vec<i64> = spans.iter().map(|span| span.from).collect();
    let before: Vec<i64> = spans.iter().map(|span| span.before).collect();
    let rows = query_events!(
        r#"FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS span (shard, first, before)
        CROSS JOIN LATERAL (
            SELECT * FROM event_store.events
            WHERE shard = span.shard AND position >= span.first AND position < span.before
              AND ($4::uuid IS NULL OR account_id = $4)
              AND ($5::text IS NULL OR type = $5)
            ORDER BY position DESC
            LIMIT $6
        ) AS e
        "#,
        &shards,
        &from,
        &before,
        wanted.account_id.map(AccountId::uuid),
        wanted.event_type,
        wanted.limit
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(EventRow::into_event).collect()
}

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
    pool: &PgPool,
    part: &StreamPart,
) -> sqlx::Result<Vec<RecordedEvent>> {
    let rows = sqlx::query_as!(
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
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(EventRow::into_event).collect()
}
