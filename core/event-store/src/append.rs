//! Appends events: the only code that inserts events into the log.

use std::collections::{BTreeMap, HashMap};

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{external_ids::ExternalIdChanges, link_expiries::ExpiryChanges};
use linkledger_core::{
    credits::Credits,
    envelope::{NewEvent, RecordedEvent},
    id::AccountId,
    shard::{Position, Shard},
};

/// Appends the events, in the given order within each shard, and stores the new credits of their
/// accounts, and external ids and expiries of their links. Returns the events as the log has them.
///
/// The caller's transaction must have locked the accounts. The counters of the shards are locked
/// last and until the commit, so positions have no gaps and become visible in order.
///
/// # Errors
/// Returns an error if the database fails or a constraint is violated: a version or an
/// idempotency key is used already, or a balance would be negative.
pub async fn append_in_tx(
    tx: &mut PgConnection,
    events: &[&NewEvent],
    accounts: &HashMap<AccountId, Credits>,
) -> sqlx::Result<Vec<RecordedEvent>> {
    ExternalIdChanges::of(events).write_in_tx(tx).await?;
    ExpiryChanges::of(events).write_in_tx(tx).await?;
    // Made before the counters are locked, which all writers of the shards wait for.
    let mut recorded = column(events, |event| event.recorded(0));
    let mut heads = lock_heads(tx, &column(&recorded, |event| event.shard)).await?;
    for event in &mut recorded {
        let head = heads
            .get_mut(&event.shard)
            .ok_or(sqlx::Error::RowNotFound)?;
        *head += 1;
        event.position = *head;
    }
    let rows = EventColumns::of(events, &recorded);
    let inserted = insert(tx, &rows, &heads, accounts).await?;
    if inserted != events.len() as u64 {
        return Err(sqlx::Error::Protocol(format!(
            "appended {inserted} of {} events",
            events.len()
        )));
    }
    Ok(recorded)
}

async fn lock_heads(
    tx: &mut PgConnection,
    shards: &[Shard],
) -> sqlx::Result<BTreeMap<Shard, Position>> {
    let mut numbers: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let rows = sqlx::query!(
        "
        SELECT shard, head
        FROM event_store.log_shards
        WHERE shard = ANY($1)
        ORDER BY shard
        FOR NO KEY UPDATE
        ",
        &numbers
    )
    .fetch_all(tx)
    .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| Shard::new(row.shard.into()).map(|shard| (shard, row.head)))
        .collect())
}

/// Writes all changes of the append, in one round trip.
async fn insert(
    tx: &mut PgConnection,
    rows: &EventColumns<'_>,
    heads: &BTreeMap<Shard, Position>,
    accounts: &HashMap<AccountId, Credits>,
) -> sqlx::Result<u64> {
    let shards: Vec<i16> = heads.keys().map(|shard| shard.number()).collect();
    let heads: Vec<i64> = heads.values().copied().collect();
    let account_ids: Vec<Uuid> = accounts.keys().map(|id| id.uuid()).collect();
    let balances: Vec<i64> = accounts.values().map(|credits| credits.balance).collect();
    let versions: Vec<i64> = accounts.values().map(|credits| credits.version).collect();
    let result = sqlx::query!(
        "
        WITH advanced AS (
            UPDATE event_store.log_shards AS s
            SET head = advanced.head
            FROM unnest($1::smallint[], $2::bigint[]) AS advanced (shard, head)
            WHERE s.shard = advanced.shard
        ), settled AS (
            UPDATE event_store.accounts AS a
            SET balance = settled.balance, version = settled.version
            FROM unnest($3::uuid[], $4::bigint[], $5::bigint[])
                AS settled (account_id, balance, version)
            WHERE a.account_id = settled.account_id
        )
        INSERT INTO event_store.events
            (shard, position, stream_id, version, account_id, event_id, type, schema_version,
             payload, metadata, recorded_at, idempotency_key, fingerprint)
        SELECT shard, position, stream_id, version, account_id, event_id, type, schema_version,
               payload::json, metadata::json, recorded_at, idempotency_key, fingerprint
        FROM unnest($6::smallint[], $7::bigint[], $8::uuid[], $9::bigint[], $10::uuid[],
                    $11::uuid[], $12::text[], $13::smallint[], $14::text[], $15::text[],
                    $16::timestamptz[], $17::text[], $18::bytea[])
            AS e (shard, position, stream_id, version, account_id, event_id, type, schema_version,
                  payload, metadata, recorded_at, idempotency_key, fingerprint)
        ",
        &shards,
        &heads,
        &account_ids,
        &balances,
        &versions,
        &rows.shards,
        &rows.positions,
        &rows.stream_ids,
        &rows.versions,
        &rows.account_ids,
        &rows.event_ids,
        &rows.types as &[&str],
        &rows.schema_versions,
        &rows.payloads as &[&str],
        &rows.metadata,
        &rows.recorded_at,
        &rows.idempotency_keys as &[Option<&str>],
        &rows.fingerprints as &[Option<&[u8]>]
    )
    .execute(tx)
    .await?;
    Ok(result.rows_affected())
}

/// The events as columns, for `unnest`.
struct EventColumns<'a> {
    shards: Vec<i16>,
    positions: Vec<i64>,
    stream_ids: Vec<Uuid>,
    versions: Vec<i64>,
    account_ids: Vec<Uuid>,
    event_ids: Vec<Uuid>,
    types: Vec<&'a str>,
    schema_versions: Vec<i16>,
    payloads: Vec<&'a str>,
    metadata: Vec<String>,
    recorded_at: Vec<OffsetDateTime>,
    idempotency_keys: Vec<Option<&'a str>>,
    fingerprints: Vec<Option<&'a [u8]>>,
}

impl<'a> EventColumns<'a> {
    fn of(events: &[&'a NewEvent], recorded: &'a [RecordedEvent]) -> Self {
        Self {
            shards: column(recorded, |event| event.shard.number()),
            positions: column(recorded, |event| event.position),
            stream_ids: column(recorded, |event| event.stream_id),
            versions: column(recorded, |event| event.version),
            account_ids: column(recorded, |event| event.account_id.uuid()),
            event_ids: column(recorded, |event| event.event_id.uuid()),
            types: column(recorded, |event| event.event_type.as_str()),
            schema_versions: column(recorded, |event| event.schema_version),
            payloads: column(recorded, |event| event.payload.as_str()),
            metadata: column(recorded, |event| {
                serde_json::to_string(&event.metadata).expect("plain strings")
            }),
            recorded_at: column(recorded, |event| event.recorded_at),
            idempotency_keys: column(events, |event| {
                Some(event.idempotency.as_ref()?.key.as_str())
            }),
            fingerprints: column(events, |event| {
                Some(event.idempotency.as_ref()?.fingerprint.as_slice())
            }),
        }
    }
}

fn column<'a, E, T>(events: &'a [E], value: impl Fn(&'a E) -> T) -> Vec<T> {
    events.iter().map(value).collect()
}
