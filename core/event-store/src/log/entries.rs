//! Entries of ledgers, which are events of accounts' credits, and the events that reverse them: refunds of charges
//! and revocations of grants. Also the look-up of any event by its id.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{EventRow, query_events};
use crate::transaction::PoolTransaction;
use linkledger_core::{
    envelope::RecordedEvent,
    id::{AccountId, EntryId, EventId, LinkId},
    shard::Shard,
};

/// Setting of a look-up by the id of an event: its index supports bitmap scans only.
const SET_BITMAPS: &str = "SET LOCAL enable_bitmapscan = on";

/// Number of reversed entries that one statement reads.
const ENTRIES_PER_READ: i64 = 5_000;

/// Finds the event of an entry of the account's ledger. Any event of the account's stream is found by its UUID: the
/// caller looks at the type.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_entry(
    pool: &PgPool,
    account_id: AccountId,
    entry_id: EntryId,
) -> sqlx::Result<Option<RecordedEvent>> {
    let mut tx = PoolTransaction::begin(pool).await?;
    sqlx::raw_sql(SET_BITMAPS).execute(&mut *tx).await?;
    let row = query_events!(
        r#"FROM (
            -- LIMIT: no other condition may choose the index, which would read the whole stream.
            SELECT * FROM event_store.events WHERE event_id = $3 LIMIT 1
        ) AS e
        WHERE e.shard = $1 AND e.stream_id = $2
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        entry_id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await?;
    tx.rollback().await?;
    row.map(EventRow::into_event).transpose()
}

/// Finds an event by its id, in all shards.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_event(pool: &PgPool, event_id: EventId) -> sqlx::Result<Option<RecordedEvent>> {
    let mut tx = PoolTransaction::begin(pool).await?;
    sqlx::raw_sql(SET_BITMAPS).execute(&mut *tx).await?;
    let row = query_events!(
        r#"FROM (
            SELECT * FROM event_store.events WHERE event_id = $1 LIMIT 1
        ) AS e
        "#,
        event_id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await?;
    tx.rollback().await?;
    row.map(EventRow::into_event).transpose()
}

/// Reads the charge of a link: the event right after the creation. Returns `None` if the account has no such link.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn charge_of_link(
    pool: &PgPool,
    account_id: AccountId,
    link_id: LinkId,
) -> sqlx::Result<Option<RecordedEvent>> {
    let row = query_events!(
        r#"FROM (
            SELECT position FROM event_store.events
            WHERE shard = $1 AND stream_id = $3 AND version = 1 AND account_id = $2
              -- The account's own stream is not a link.
              AND stream_id <> account_id
            LIMIT 1
        ) AS link
        -- Not a plain join: planned while there are no events, it would read the whole shard.
        CROSS JOIN LATERAL (
            -- Not *: query-api may not read idempotency keys.
            SELECT shard, position, stream_id, version, account_id, event_id, type, schema_version,
                   payload, metadata, recorded_at
            FROM event_store.events
            WHERE shard = $1 AND position = link.position + 1
            LIMIT 1
        ) AS e
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        link_id.uuid()
    )
    .fetch_optional(pool)
    .await?;
    row.map(EventRow::into_event).transpose()
}

/// Reads the refunds and revocations of these entries of the account's ledger, in any order.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn reversals_of(
    pool: &PgPool,
    account_id: AccountId,
    entries: &[EntryId],
) -> sqlx::Result<Vec<RecordedEvent>> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let entries: Vec<String> = entries.iter().map(EntryId::to_string).collect();
    let rows = query_events!(
        r#"FROM unnest($3::text[]) AS entry (id)
        -- Not a plain join: planned while there are no events, it would read all reversals of the shard.
        CROSS JOIN LATERAL (
            -- Not *: query-api may not read idempotency keys.
            SELECT shard, position, stream_id, version, account_id, event_id, type, schema_version,
                   payload, metadata, recorded_at
            FROM event_store.events
            WHERE shard = $1 AND account_id = $2
              AND coalesce(payload->>'refunds', payload->>'grant') = entry.id
              AND type IN ('CreditsRefunded', 'CreditsRevoked')
            LIMIT 1
        ) AS e
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        &entries
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(EventRow::into_event).collect()
}

/// Returns true if the account's charge was given back, or its grant taken back. The caller must have locked the
/// account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn is_reversed_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
    entry_id: EntryId,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        SELECT EXISTS (
            SELECT FROM event_store.events
            WHERE shard = $1 AND account_id = $2
              AND coalesce(payload->>'refunds', payload->>'grant') = $3
              AND type IN ('CreditsRefunded', 'CreditsRevoked')
        ) AS "is_reversed!"
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        entry_id.to_string()
    )
    .fetch_one(tx)
    .await
}

/// Reads the entries that the refunds and revocations of a shard name. Skips ids that cannot be read.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn reversed_entries(pool: &PgPool, shard: Shard) -> sqlx::Result<Vec<EntryId>> {
    let mut entries = Vec::new();
    let mut after = (Uuid::nil(), String::new());
    loop {
        let page = sqlx::query!(
            r#"
            SELECT account_id, coalesce(payload->>'refunds', payload->>'grant') AS "entry!"
            FROM event_store.events
            WHERE shard = $1
              AND (account_id, coalesce(payload->>'refunds', payload->>'grant')) > ($2, $3)
              AND type IN ('CreditsRefunded', 'CreditsRevoked')
            ORDER BY account_id, coalesce(payload->>'refunds', payload->>'grant')
            LIMIT $4
            "#,
            shard.number(),
            after.0,
            after.1,
            ENTRIES_PER_READ
        );
        let page = page.fetch_all(pool).await?;
        let Some(last) = page.last() else {
            return Ok(entries);
        };
        after = (last.account_id, last.entry.clone());
        entries.extend(
            page.iter()
                .filter_map(|row| row.entry.parse::<EntryId>().ok()),
        );
    }
}
