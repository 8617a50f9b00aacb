//! Appends events to the log as a later release would, unknown to this release.

use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    id::AccountId,
    shard::Shard,
};

/// Event as a later release would store it: this release may not know its type or schema version.
#[derive(Debug, Clone)]
pub struct LaterEvent {
    /// Account of the event.
    pub account_id: AccountId,
    /// Stream of the event.
    pub stream_id: Uuid,
    /// Type name.
    pub event_type: &'static str,
    /// Version of the payload's schema.
    pub schema_version: i16,
    /// Payload.
    pub payload: Value,
    /// Metadata.
    pub metadata: Value,
    /// Idempotency key, if any; the fingerprint is all zeros.
    pub idempotency_key: Option<String>,
}

/// Appends the event at the end of the stream. Does not update the row in
/// `event_store.accounts`, unlike a real append.
pub async fn append_later_event(pool: &PgPool, event: LaterEvent) {
    let now = SystemClock.now();
    sqlx::query(
        "WITH advanced AS (
             UPDATE event_store.log_shards SET head = head + 1 WHERE shard = $1 RETURNING head
         )
         INSERT INTO event_store.events
             (shard, position, stream_id, version, account_id, event_id, type, schema_version,
              payload, metadata, recorded_at, idempotency_key, fingerprint)
         SELECT $1, head, $2,
                (SELECT coalesce(max(version), 0) + 1 FROM event_store.events
                 WHERE shard = $1 AND stream_id = $2),
                $3, $4, $5, $6, $7::json, $8::json, $9, $10,
                CASE WHEN $10 IS NOT NULL THEN decode(repeat('00', 32), 'hex') END
         FROM advanced",
    )
    .bind(Shard::of(event.account_id).number())
    .bind(event.stream_id)
    .bind(event.account_id.uuid())
    .bind(new_uuid(now))
    .bind(event.event_type)
    .bind(event.schema_version)
    .bind(event.payload.to_string())
    .bind(event.metadata.to_string())
    .bind(now)
    .bind(event.idempotency_key)
    .execute(pool)
    .await
    .expect("the event is appended");
}
