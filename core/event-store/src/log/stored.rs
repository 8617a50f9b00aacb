//! Reads the log byte for byte as stored, to check, seal or copy the whole log.
//!
//! The reader uses `COPY`, which costs a fraction of a query, in Postgres's binary format. The rows
//! in this format are the bytes that segments hash.

use futures::TryStreamExt as _;
use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};
use time::{Duration, OffsetDateTime, macros::datetime};
use uuid::Uuid;

use linkledger_core::{
    envelope::{Metadata, RecordedEvent},
    id::{AccountId, EventId},
    shard::{Position, Shard},
};

/// The columns in the order of the hash. The order is a contract (`docs/sealed-segments.md`): never
/// change it.
const COLUMNS: &str = "shard, position, stream_id, version, account_id, event_id, type, \
                       schema_version, payload, metadata, recorded_at, idempotency_key, \
                       fingerprint";
const COLUMN_COUNT: i16 = 13;

/// Start of a binary `COPY`: its signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Marks the end of a binary `COPY`, in place of a row's number of columns.
const TRAILER: i16 = -1;
/// Zero of Postgres's timestamps.
const POSTGRES_EPOCH: OffsetDateTime = datetime!(2000-01-01 00:00 UTC);

/// Maximal number of events of one read: about a megabyte, and some milliseconds of the database.
pub const EVENTS_PER_READ: i64 = 2_000;

/// A range of positions of a shard; short, so that no statement runs for long.
#[derive(Debug, Clone, Copy)]
pub struct PositionRange {
    /// Shard of the range.
    pub shard: Shard,
    /// Position before the first event; 0 for the beginning.
    pub after: Position,
    /// Position of the last event.
    pub up_to: Position,
}

/// Events of a range of positions, in order.
#[derive(Debug)]
pub struct StoredEvents {
    shard: Shard,
    copied: Vec<u8>,
}

/// A stored event. Only the format of the row is checked.
#[derive(Debug, Clone, Copy)]
pub struct StoredEvent<'a> {
    /// The whole row in Postgres's binary `COPY` format.
    pub row: &'a [u8],
    /// Position of the event in the shard.
    pub position: Position,
    /// Stream of the event.
    pub stream_id: Uuid,
    /// Version of the event in its stream.
    pub version: i64,
    /// Account that the event concerns.
    pub account_id: AccountId,
    /// Id of the event.
    pub event_id: EventId,
    /// Stored type name.
    pub event_type: &'a str,
    /// Schema version of the payload.
    pub schema_version: i16,
    /// Payload, as JSON text.
    pub payload: &'a str,
    /// Metadata, as JSON text.
    pub metadata: &'a str,
    /// Time of the decision.
    pub recorded_at: OffsetDateTime,
    /// Idempotency key of the event's command, if the event carries the key.
    pub idempotency_key: Option<&'a str>,
}

/// Session during a COPY. Closed when dropped, unless the COPY has ended.
struct CopySession {
    session: PoolConnection<Postgres>,
    has_ended: bool,
}

impl Drop for CopySession {
    fn drop(&mut self) {
        if !self.has_ended {
            self.session.close_on_drop();
        }
    }
}

/// Reads the events of a range of positions in a session of the pool.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_stored(pool: &PgPool, stretch: PositionRange) -> sqlx::Result<StoredEvents> {
    let mut copy = CopySession {
        session: pool.acquire().await?,
        has_ended: false,
    };
    let events = read_stored_on(&mut copy.session, stretch).await?;
    copy.has_ended = true;
    Ok(events)
}

/// Reads the events of a range of positions in this session. The caller must close the session after an error,
/// and if the future is dropped: sqlx does not count the answer to a COPY as outstanding, and the next
/// statement would take that answer for its own. Errors of storage
/// ([`is_of_storage`](crate::errors::is_of_storage)) are answers to the end.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_stored_on(
    session: &mut PgConnection,
    stretch: PositionRange,
) -> sqlx::Result<StoredEvents> {
    let PositionRange {
        shard,
        after,
        up_to,
    } = stretch;
    // Not `query!`: COPY takes no parameters. All inserted values are numbers.
    let statement = format!(
        "COPY (SELECT {COLUMNS} FROM event_store.events
               WHERE shard = {shard} AND position > {after} AND position <= {up_to}
               ORDER BY position)
         TO STDOUT (FORMAT binary)"
    );
    let mut parts = session.copy_out_raw(&statement).await?;
    let mut copied = Vec::new();
    while let Some(part) = parts.try_next().await? {
        copied.extend_from_slice(&part);
    }
    if !copied.starts_with(HEADER) {
        return Err(malformed("another form of COPY"));
    }
    Ok(StoredEvents { shard, copied })
}

impl StoredEvents {
    /// Returns the events in order. An item is an error only if Postgres violates its own format.
    pub fn iter(&self) -> impl Iterator<Item = sqlx::Result<StoredEvent<'_>>> {
        let mut rest = &self.copied[HEADER.len()..];
        std::iter::from_fn(move || {
            let row = Row::split_off(&mut rest).transpose()?;
            Some(row.and_then(Row::into_event))
        })
    }

    /// Returns the shard of the events.
    pub fn shard(&self) -> Shard {
        self.shard
    }
}

impl StoredEvent<'_> {
    /// Converts the event to a [`RecordedEvent`].
    pub fn to_recorded(&self, shard: Shard) -> RecordedEvent {
        RecordedEvent {
            shard,
            position: self.position,
            stream_id: self.stream_id,
            version: self.version,
            account_id: self.account_id,
            event_id: self.event_id,
            event_type: self.event_type.to_owned(),
            schema_version: self.schema_version,
            payload: self.payload.to_owned(),
            metadata: Metadata::of_stored(self.metadata),
            recorded_at: self.recorded_at,
        }
    }
}

/// A row, read column by column.
struct Row<'a> {
    whole: &'a [u8],
    unread: &'a [u8],
}

impl<'a> Row<'a> {
    /// Splits the first row off the unread bytes. Returns `None` at the end.
    fn split_off(rest: &mut &'a [u8]) -> sqlx::Result<Option<Self>> {
        let whole = *rest;
        match i16::from_be_bytes(take(rest)?) {
            TRAILER if rest.is_empty() => return Ok(None),
            COLUMN_COUNT => {}
            _ => return Err(malformed("not the columns that were asked for")),
        }
        let unread = *rest;
        for _ in 0..COLUMN_COUNT {
            let length = i32::from_be_bytes(take(rest)?);
            let length = usize::try_from(length).unwrap_or(0);
            *rest = rest.get(length..).ok_or_else(|| malformed("cut short"))?;
        }
        let whole = &whole[..whole.len() - rest.len()];
        Ok(Some(Self { whole, unread }))
    }

    /// Reads all columns, in the order of [`COLUMNS`].
    fn into_event(mut self) -> sqlx::Result<StoredEvent<'a>> {
        self.array::<2>()?; // The shard, known from the request.
        Ok(StoredEvent {
            row: self.whole,
            position: i64::from_be_bytes(self.array()?),
            stream_id: Uuid::from_bytes(self.array()?),
            version: i64::from_be_bytes(self.array()?),
            account_id: AccountId::from_uuid(Uuid::from_bytes(self.array()?)),
            event_id: EventId::from_uuid(Uuid::from_bytes(self.array()?)),
            event_type: self.text()?,
            schema_version: i16::from_be_bytes(self.array()?),
            payload: self.text()?,
            metadata: self.text()?,
            recorded_at: instant(i64::from_be_bytes(self.array()?))?,
            idempotency_key: self.column()?.map(as_text).transpose()?,
        })
    }

    fn column(&mut self) -> sqlx::Result<Option<&'a [u8]>> {
        let length = i32::from_be_bytes(take(&mut self.unread)?);
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        let (column, rest) = self.unread.split_at(length);
        self.unread = rest;
        Ok(Some(column))
    }

    fn array<const N: usize>(&mut self) -> sqlx::Result<[u8; N]> {
        let column = self.column()?.unwrap_or_default();
        let array = column.try_into();
        array.map_err(|_| malformed("a column of another type"))
    }

    fn text(&mut self) -> sqlx::Result<&'a str> {
        as_text(self.column()?.unwrap_or_default())
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> sqlx::Result<[u8; N]> {
    let (taken, after) = rest
        .split_first_chunk()
        .ok_or_else(|| malformed("cut short"))?;
    *rest = after;
    Ok(*taken)
}

fn as_text(column: &[u8]) -> sqlx::Result<&str> {
    std::str::from_utf8(column).map_err(|_| malformed("text that is not UTF-8"))
}

fn instant(microseconds: i64) -> sqlx::Result<OffsetDateTime> {
    POSTGRES_EPOCH
        .checked_add(Duration::microseconds(microseconds))
        .ok_or_else(|| malformed("a time out of all bounds"))
}

fn malformed(reason: &'static str) -> sqlx::Error {
    sqlx::Error::Protocol(format!("a copy of the log cannot be read: {reason}"))
}
