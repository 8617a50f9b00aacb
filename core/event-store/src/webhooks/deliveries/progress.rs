//! Progress of a cursor: its new place, and the deliveries of the events that it passes.

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{DeliveryRecord, storable, store_health};
use crate::{
    transaction::PoolTransaction,
    webhooks::{cursors::Cursor, rows::WebhookHealth},
};
use linkledger_core::{
    clock::new_uuid,
    id::{EventId, WebhookId},
    shard::Position,
};

/// Progress of a webhook in one shard.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The webhook.
    pub webhook_id: WebhookId,
    /// Cursor with its new place.
    pub cursor: &'a Cursor,
    /// Position of the cursor as it was last read or stored.
    pub position_before: Position,
    /// Event at the new position; `None` if the cursor does not move.
    pub last_event: Option<EventId>,
    /// True if a replay has reached its end: its cursor is deleted.
    pub is_finished: bool,
    /// Deliveries of events up to the new place whose first attempt has ended since the last progress, each event once.
    pub deliveries: &'a [DeliveryRecord],
    /// Health of the receiver, if it is to be stored too.
    pub health: Option<&'a SeenHealth>,
}

/// Health of a receiver after attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenHealth {
    /// The health.
    pub health: WebhookHealth,
    /// Time of the last change of the webhook that the attempts were for.
    pub updated_at: OffsetDateTime,
}

/// Outcome of a store of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressOutcome {
    /// It is stored, or was stored before.
    Stored,
    /// Nothing is stored. The cursor is elsewhere, has ended, or the log has not the event that was reached: somebody
    /// else has moved the cursor, or the database was restored. All must be read anew.
    Superseded,
}

/// Stores progress in one transaction. The cursor moves only from the place where its reader has left it, to an event
/// that the log still has, and never back. Deliveries of events that it has passed before are ignored: all of them are
/// stored, or were delivered.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn store_progress(
    pool: &PgPool,
    progress: &Progress<'_>,
) -> sqlx::Result<ProgressOutcome> {
    let mut tx = PoolTransaction::begin(pool).await?;
    let Some(passed) = move_cursor_in_tx(&mut tx, progress).await? else {
        tx.rollback().await?;
        return Ok(ProgressOutcome::Superseded);
    };
    let shard = progress.cursor.shard;
    let is_new = |record: &&DeliveryRecord| {
        record.shard != Some(shard) || record.position.is_none_or(|position| position > passed)
    };
    let records: Vec<&DeliveryRecord> = progress.deliveries.iter().filter(is_new).collect();
    if !records.is_empty() {
        store_deliveries_in_tx(&mut tx, progress, &records).await?;
    }
    if let Some(SeenHealth { health, updated_at }) = progress.health {
        store_health(&mut *tx, progress.webhook_id, *updated_at, health).await?;
    }
    tx.commit().await?;
    Ok(ProgressOutcome::Stored)
}

/// Moves the cursor forward, or deletes the cursor of a finished replay. Returns the position of the cursor before, or
/// `None` if the progress is superseded.
async fn move_cursor_in_tx(
    tx: &mut PgConnection,
    progress: &Progress<'_>,
) -> sqlx::Result<Option<Position>> {
    let cursor = progress.cursor;
    sqlx::query_scalar!(
        r#"
        WITH webhook AS (
            -- Locked first, as a deletion does: each inserted delivery locks it too, and the health more strongly.
            SELECT webhook_id FROM event_store.webhooks WHERE webhook_id = $1 FOR SHARE
        ), before AS (
            SELECT c.position
            FROM webhook CROSS JOIN event_store.webhook_cursors AS c
            WHERE c.webhook_id = $1 AND c.shard = $2 AND c.is_replay = $3
              -- Not another replay.
              AND c.until_position IS NOT DISTINCT FROM $4
              -- Stored before, with an answer that was lost: nothing moves.
              AND (c.position = $8 OR c.position >= $5)
              AND ($9::uuid IS NULL OR $9 = (
                  -- Not =: only the order makes a plan for few events use the primary key.
                  SELECT event_id FROM event_store.events
                  WHERE shard = $2 AND position >= $5
                  ORDER BY position
                  LIMIT 1
              ))
            FOR NO KEY UPDATE OF c
        ), moved AS (
            UPDATE event_store.webhook_cursors AS c
            SET position = $5, version = $6
            FROM before
            WHERE c.webhook_id = $1 AND c.shard = $2 AND c.is_replay = $3
              AND c.position < $5 AND NOT $7
        ), ended AS (
            DELETE FROM event_store.webhook_cursors AS c
            USING before
            WHERE c.webhook_id = $1 AND c.shard = $2 AND c.is_replay AND c.is_replay = $3 AND $7
        )
        SELECT position AS "position!" FROM before
        "#,
        progress.webhook_id.uuid(),
        cursor.shard.number(),
        cursor.is_replay,
        cursor.until,
        cursor.place.position,
        cursor.place.version,
        progress.is_finished,
        progress.position_before,
        progress.last_event.map(EventId::uuid)
    )
    .fetch_optional(tx)
    .await
}

/// Inserts the deliveries. A stored delivery changes if the message was delivered, by a later attempt of a waiting one,
/// and by a replay of one that has ended.
async fn store_deliveries_in_tx(
    tx: &mut PgConnection,
    progress: &Progress<'_>,
    records: &[&DeliveryRecord],
) -> sqlx::Result<()> {
    let rows = DeliveryColumns::of(records);
    sqlx::query!(
        "
        INSERT INTO event_store.webhook_deliveries AS d
            (delivery_id, webhook_id, event_id, message_type, shard, position, state, attempts,
             next_attempt_at, last_attempt_at, last_status, last_error, response, created_at)
        SELECT delivery_id, $1, event_id, message_type, shard, position, state, attempts,
               next_attempt_at, last_attempt_at, last_status, last_error, response,
               date_trunc('milliseconds', now())
        FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::smallint[], $7::bigint[], $8::text[],
                    $9::integer[], $10::timestamptz[], $11::timestamptz[], $12::smallint[],
                    $13::text[], $14::text[])
            AS record (delivery_id, event_id, message_type, shard, position, state, attempts,
                       next_attempt_at, last_attempt_at, last_status, last_error, response)
        ON CONFLICT (webhook_id, event_id) DO UPDATE
        SET state = excluded.state, attempts = excluded.attempts,
            next_attempt_at = excluded.next_attempt_at, last_attempt_at = excluded.last_attempt_at,
            last_status = excluded.last_status, last_error = excluded.last_error,
            response = excluded.response
        WHERE excluded.state = 'delivered'
           OR (d.state = 'waiting' AND excluded.attempts > d.attempts)
           OR (d.state <> 'waiting' AND $2 AND excluded.last_attempt_at > d.last_attempt_at)
        ",
        progress.webhook_id.uuid(),
        progress.cursor.is_replay,
        &rows.delivery_ids,
        &rows.event_ids,
        &rows.message_types as &[&str],
        &rows.shards as &[Option<i16>],
        &rows.positions as &[Option<i64>],
        &rows.states as &[&str],
        &rows.attempts,
        &rows.next_attempts_at as &[Option<OffsetDateTime>],
        &rows.last_attempts_at as &[Option<OffsetDateTime>],
        &rows.last_statuses as &[Option<i16>],
        &rows.last_errors as &[Option<String>],
        &rows.responses as &[Option<String>]
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The deliveries as columns, for `unnest`.
struct DeliveryColumns<'a> {
    delivery_ids: Vec<Uuid>,
    event_ids: Vec<Uuid>,
    message_types: Vec<&'a str>,
    shards: Vec<Option<i16>>,
    positions: Vec<Option<i64>>,
    states: Vec<&'a str>,
    attempts: Vec<i32>,
    next_attempts_at: Vec<Option<OffsetDateTime>>,
    last_attempts_at: Vec<Option<OffsetDateTime>>,
    last_statuses: Vec<Option<i16>>,
    last_errors: Vec<Option<String>>,
    responses: Vec<Option<String>>,
}

impl<'a> DeliveryColumns<'a> {
    fn of(records: &[&'a DeliveryRecord]) -> Self {
        Self {
            delivery_ids: column(records, |record| new_uuid(first_attempt_at(record))),
            event_ids: column(records, |record| record.event_id.uuid()),
            message_types: column(records, |record| record.message_type.as_str()),
            shards: column(records, |record| Some(record.shard?.number())),
            positions: column(records, |record| record.position),
            states: column(records, |record| record.state.name()),
            attempts: column(records, |record| record.attempts),
            next_attempts_at: column(records, |record| record.next_attempt_at),
            last_attempts_at: column(records, |record| record.last_attempt_at),
            last_statuses: column(records, |record| record.last_status),
            last_errors: column(records, |record| record.last_error.as_deref().map(storable)),
            responses: column(records, |record| record.response.as_deref().map(storable)),
        }
    }
}

/// Returns the time with which the id of a new delivery begins.
fn first_attempt_at(record: &DeliveryRecord) -> OffsetDateTime {
    let attempt = record.last_attempt_at.or(record.next_attempt_at);
    attempt.unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn column<'a, T>(
    records: &[&'a DeliveryRecord],
    value: impl Fn(&'a DeliveryRecord) -> T,
) -> Vec<T> {
    records.iter().copied().map(value).collect()
}
