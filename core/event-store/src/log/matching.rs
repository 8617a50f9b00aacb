//! Reads the events of an account or of a type, for operators: from a position on, or the last ones.

use sqlx::PgPool;

use super::{EventRow, RecordedEvent, query_events};
use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
};

/// A range of positions of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionSpan {
    /// Shard of the range.
    pub shard: Shard,
    /// Lowest position of the range.
    pub from: Position,
    /// Position right after the highest position of the range.
    pub before: Position,
}

/// Filter for the events of a span.
#[derive(Debug, Clone, Copy)]
pub struct EventFilter<'a> {
    /// Account of the events, or `None` for all accounts.
    pub account_id: Option<AccountId>,
    /// Stored type of the events, or `None` for all types.
    pub event_type: Option<&'a str>,
    /// Maximal number of events of each span.
    pub limit: i64,
}

/// An event of a list that operators see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEvent {
    /// The event.
    pub event: RecordedEvent,
    /// Metadata of the event: JSON text, byte for byte as written, with members of later releases.
    pub metadata: String,
}

/// Reads the events of each span that match the filter, in this order of positions up to the limit.
macro_rules! read_in_order {
    ($order:literal, $pool:expr, $spans:expr, $wanted:expr) => {{
        let shards: Vec<i16> = $spans.iter().map(|span| span.shard.number()).collect();
        let from: Vec<i64> = $spans.iter().map(|span| span.from).collect();
        let before: Vec<i64> = $spans.iter().map(|span| span.before).collect();
        let rows = query_events!(
            r#"FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS span (shard, first, before)
        CROSS JOIN LATERAL (
            -- Not *: query-api may not read idempotency keys.
            SELECT shard, position, stream_id, version, account_id, event_id, type, schema_version,
                   payload, metadata, recorded_at
            FROM event_store.events
            WHERE shard = span.shard AND position >= span.first AND position < span.before
              AND ($4::uuid IS NULL OR account_id = $4)
              AND ($5::text IS NULL OR type = $5)
            ORDER BY position"# + $order + r#"
            LIMIT $6
        ) AS e
        ORDER BY e.shard, e.position
        "#,
            &shards,
            &from,
            &before,
            $wanted.account_id.map(AccountId::uuid),
            $wanted.event_type,
            $wanted.limit
        )
        .fetch_all($pool)
        .await?;
        rows.into_iter().map(EventRow::into_listed).collect()
    }};
}

/// Reads the first events of each span that match the filter, in order within each shard.
///
/// No index serves the filter: every event of a span is scanned until enough events are found. The
/// caller must keep the spans short.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_matching(
    pool: &PgPool,
    spans: &[PositionSpan],
    wanted: EventFilter<'_>,
) -> sqlx::Result<Vec<ListedEvent>> {
    read_in_order!("", pool, spans, wanted)
}

/// Reads the last events of each span that match the filter, like [`read_matching`].
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_last_matching(
    pool: &PgPool,
    spans: &[PositionSpan],
    wanted: EventFilter<'_>,
) -> sqlx::Result<Vec<ListedEvent>> {
    read_in_order!(" DESC", pool, spans, wanted)
}
