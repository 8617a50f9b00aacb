//! Reads the log by position. No other module reads by position.
//!
//! The readers never miss an event: positions come from a counter row that is locked until the
//! commit, so a reader of a position sees all lower positions of the shard.

mod entries;
pub mod feed;
mod links;
mod matching;
mod newest;
mod presence;
pub mod stored;

use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::errors::is_of_stored_data;
use linkledger_core::{
    envelope::{Metadata, RecordedEvent},
    id::{AccountId, EventId},
    shard::{Position, SHARD_COUNT, Shard},
};

pub use self::{
    entries::{
        charge_of_link, find_entry, find_event, is_reversed_in_tx, reversals_of, reversed_entries,
    },
    links::{
        LinkEndState, LinkExtent, last_link_events, link_beginnings, link_extent, link_extents,
    },
    matching::{EventFilter, ListedEvent, PositionSpan, read_last_matching, read_matching},
    newest::{StreamPart, list_stream_backwards, read_stream_backwards},
    presence::{EventPlace, Presence, compare},
};

/// Statement with an [`EventRow`] for each row `e` of the text, which begins with FROM.
macro_rules! query_events {
    ($from:literal $(+ $more:literal)*, $($parameter:expr),+) => {
        sqlx::query_as!(
            $crate::log::EventRow,
            r#"
        SELECT e.shard AS "shard!", e.position AS "position!", e.stream_id AS "stream_id!",
               e.version AS "version!", e.account_id AS "account_id!", e.event_id AS "event_id!",
               e.type AS "event_type!", e.schema_version AS "schema_version!",
               e.payload::text AS "payload!", e.metadata::text AS "metadata!",
               e.recorded_at AS "recorded_at!"
        "# + $from $(+ $more)*,
            $($parameter),+
        )
    };
}
use query_events;

/// One value for each shard, by [`Shard::index`].
pub type PerShard<T> = [T; SHARD_COUNT as usize];

/// Returns one value for each shard from rows with the number of their shard. Skips rows of unknown
/// shards.
fn per_shard<T: Default>(rows: impl Iterator<Item = (i16, T)>) -> PerShard<T> {
    let mut values = PerShard::default();
    for (number, value) in rows {
        if let Some(shard) = Shard::new(number.into()) {
            values[shard.index()] = value;
        }
    }
    values
}

/// Reads the head of each shard.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn heads(executor: impl PgExecutor<'_>) -> sqlx::Result<PerShard<Position>> {
    let rows = sqlx::query!("SELECT shard, head FROM event_store.log_shards")
        .fetch_all(executor)
        .await?;
    Ok(per_shard(rows.iter().map(|row| (row.shard, row.head))))
}

/// Identity, epoch and heads of the log, read in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// Identity of the log; a restored backup keeps the id.
    pub log_id: Uuid,
    /// Epoch, within which positions can be compared.
    pub epoch: i32,
    /// Head of each shard.
    pub heads: PerShard<Position>,
}

/// Reads identity, epoch and the head of each shard, in one snapshot.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn end(pool: &PgPool) -> sqlx::Result<LogEnd> {
    let rows = sqlx::query!(
        "SELECT s.shard, s.head, m.epoch, m.log_id
         FROM event_store.log_shards AS s CROSS JOIN event_store.log_meta AS m"
    )
    .fetch_all(pool)
    .await?;
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(LogEnd {
        log_id: first.log_id,
        epoch: first.epoch,
        heads: per_shard(rows.iter().map(|row| (row.shard, row.head))),
    })
}

/// End of a shard according to counter and events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardExtent {
    /// Head of the shard, according to the counter.
    pub head: Position,
    /// Position of the last event; 0 if the shard is empty.
    pub last: Position,
}

/// Reads the counter and the last position of each shard, in one snapshot.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn extents(pool: &PgPool) -> sqlx::Result<PerShard<ShardExtent>> {
    let rows = sqlx::query!(
        r#"
        SELECT s.shard, s.head, coalesce((
            SELECT max(position) FROM event_store.events WHERE shard = s.shard
        ), 0) AS "last!"
        FROM event_store.log_shards AS s
        "#
    )
    .fetch_all(pool)
    .await?;
    let extents = rows.into_iter().map(|row| {
        let (head, last) = (row.head, row.last);
        (row.shard, ShardExtent { head, last })
    });
    Ok(per_shard(extents))
}

/// Start of a read: a shard and the position after which reading continues.
#[derive(Debug, Clone, Copy)]
pub struct ReadFrom {
    /// Shard to read.
    pub shard: Shard,
    /// Position that was read last; 0 to read from the beginning.
    pub after: Position,
}

/// Reads up to `limit` events of each shard, in order within each shard and without a gap.
///
/// # Errors
/// Returns an error if the database fails, cannot read one of the events, or lacks one before another: the
/// log is damaged ([`is_of_stored_data`]).
pub async fn read_after(
    pool: &PgPool,
    from: &[ReadFrom],
    limit: i64,
) -> sqlx::Result<Vec<RecordedEvent>> {
    let shards: Vec<i16> = from.iter().map(|from| from.shard.number()).collect();
    let positions: Vec<i64> = from.iter().map(|from| from.after).collect();
    let rows = query_events!(
        r#"FROM unnest($1::smallint[], $2::bigint[]) AS from_place (shard, position)
        CROSS JOIN LATERAL (
            SELECT * FROM event_store.events
            WHERE shard = from_place.shard AND position > from_place.position
            ORDER BY position
            LIMIT $3
        ) AS e
        "#,
        &shards,
        &positions,
        limit
    )
    .fetch_all(pool)
    .await?;
    let events = rows.into_iter().map(EventRow::into_event);
    let events = events.collect::<sqlx::Result<Vec<_>>>()?;
    check_for_gaps(from, &events)?;
    Ok(events)
}

/// Returns an error if a position is missing between the start of a shard and the last of its events.
fn check_for_gaps(from: &[ReadFrom], events: &[RecordedEvent]) -> sqlx::Result<()> {
    let mut last = PerShard::<Position>::default();
    for from in from {
        last[from.shard.index()] = from.after;
    }
    for event in events {
        let last = &mut last[event.shard.index()];
        *last += 1;
        if event.position != *last {
            let (shard, position) = (event.shard, *last);
            let missing = format!("the event at position {position} of shard {shard} is missing");
            return Err(sqlx::Error::Decode(missing.into()));
        }
    }
    Ok(())
}

/// Reads up to `limit` events of one shard, in order, and stops before an unreadable or missing event: the
/// events before it must not wait for the operator. Each statement reads half as many as the one before.
///
/// # Errors
/// Returns an error if the database fails, or cannot read the next event.
pub async fn read_readable_after(
    pool: &PgPool,
    from: ReadFrom,
    limit: i64,
) -> sqlx::Result<Vec<RecordedEvent>> {
    let mut limit = limit;
    loop {
        match read_after(pool, &[from], limit).await {
            Err(error) if is_of_stored_data(&error) && limit > 1 => limit /= 2,
            read => return read,
        }
    }
}

/// Reads the events at these positions of a shard, in order. Skips positions without an event.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_at(
    executor: impl PgExecutor<'_>,
    shard: Shard,
    positions: &[Position],
) -> sqlx::Result<Vec<RecordedEvent>> {
    let rows = query_events!(
        r#"FROM unnest($2::bigint[]) AS place (position)
        -- Not `= ANY`: planned while there are no events, that would read the whole shard.
        CROSS JOIN LATERAL (
            SELECT * FROM event_store.events
            WHERE shard = $1 AND position = place.position
            LIMIT 1
        ) AS e
        ORDER BY e.position
        "#,
        shard.number(),
        positions
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter().map(EventRow::into_event).collect()
}

/// Reads the recording time of the event right after each of the positions, in the order of
/// `places`; `None` for a position at its shard's head, and if the event cannot be read: readers of the
/// whole event report the damage.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn recording_times_after(
    pool: &PgPool,
    places: &[ReadFrom],
) -> sqlx::Result<Vec<Option<OffsetDateTime>>> {
    match readable_recording_times_after(pool, places).await {
        Err(error) if is_of_stored_data(&error) => {}
        times => return times,
    }
    let mut times = Vec::with_capacity(places.len());
    for place in places {
        match readable_recording_times_after(pool, &[*place]).await {
            Err(error) if is_of_stored_data(&error) => times.push(None),
            time => times.extend(time?),
        }
    }
    Ok(times)
}

async fn readable_recording_times_after(
    pool: &PgPool,
    places: &[ReadFrom],
) -> sqlx::Result<Vec<Option<OffsetDateTime>>> {
    let shards: Vec<i16> = places.iter().map(|place| place.shard.number()).collect();
    let positions: Vec<i64> = places.iter().map(|place| place.after).collect();
    sqlx::query_scalar!(
        r#"
        SELECT e.recorded_at AS "recorded_at?"
        FROM unnest($1::smallint[], $2::bigint[]) WITH ORDINALITY AS place (shard, position, nth)
        LEFT JOIN event_store.events AS e
            ON e.shard = place.shard AND e.position = place.position + 1
        ORDER BY place.nth
        "#,
        &shards,
        &positions
    )
    .fetch_all(pool)
    .await
}

/// Returns true if the log has this event, at its version of its stream.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn contains_in_tx(tx: &mut PgConnection, event: &RecordedEvent) -> sqlx::Result<bool> {
    let found = sqlx::query_scalar!(
        "
        SELECT event_id FROM event_store.events
        WHERE shard = $1 AND stream_id = $2 AND version = $3
        ",
        event.shard.number(),
        event.stream_id,
        event.version
    )
    .fetch_optional(tx)
    .await?;
    Ok(found == Some(event.event_id.uuid()))
}

struct EventRow {
    shard: i16,
    position: i64,
    stream_id: Uuid,
    version: i64,
    account_id: Uuid,
    event_id: Uuid,
    event_type: String,
    schema_version: i16,
    payload: String,
    metadata: String,
    recorded_at: OffsetDateTime,
}

impl EventRow {
    fn into_event(self) -> sqlx::Result<RecordedEvent> {
        let shard = Shard::new(self.shard.into())
            .ok_or_else(|| sqlx::Error::Decode(format!("no shard {}", self.shard).into()))?;
        Ok(RecordedEvent {
            shard,
            position: self.position,
            stream_id: self.stream_id,
            version: self.version,
            account_id: AccountId::from_uuid(self.account_id),
            event_id: EventId::from_uuid(self.event_id),
            event_type: self.event_type,
            schema_version: self.schema_version,
            payload: self.payload,
            metadata: Metadata::of_stored(&self.metadata),
            recorded_at: self.recorded_at,
        })
    }

    fn into_listed(self) -> sqlx::Result<ListedEvent> {
        Ok(ListedEvent {
            metadata: self.metadata.clone(),
            event: self.into_event()?,
        })
    }
}
