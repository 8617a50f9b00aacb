//! Events in the log as a later release writes them, which this one does not know.

use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    id::AccountId,
    shard::Shard,
};

/// An event in its stored form.
#[derive(Debug, Clone)]
pub struct LaterEvent {
    /// Whose it is.
    pub account_id: AccountId,
    /// The stream at whose end it stands.
    pub stream_id: Uuid,
    /// Type name.
    pub event_type: &'static str,
    /// Version of the payload's schema.
    pub schema_version: i16,
    /// The payload.
    pub payload: Value,
    /// The metadata.
    pub metadata: Value,
    /// The key under which it stands, if any; its fingerprint is all zeros.
    pub idempotency_key: Option<String>,
}

/// Appends the event; the account's row stays as it is.
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
