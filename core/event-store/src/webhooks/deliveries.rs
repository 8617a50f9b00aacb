//! Deliveries: messages of webhooks with a schedule of their own, and the last ones that were delivered.

mod progress;
mod stored;

use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rows::WebhookHealth;
use linkledger_core::{
    clock::new_uuid,
    id::{DeliveryId, EventId, WebhookId},
    webhook::{DeliveryState, MessageType},
};

use self::stored::DeliveryRow;
pub use self::{
    progress::{Progress, ProgressOutcome, SeenHealth, store_progress},
    stored::{DeliveryRecord, StoredDelivery},
};

/// Number of characters that are stored of an answer's body, and of an error.
const TEXT_LENGTH_MAX: usize = 1_024;
/// Maximum number of deliveries that [`trim`] deletes, well within the time limit of a statement.
pub const TRIMMED_MAX: u64 = 1_000;

/// Statement with a [`DeliveryRow`] for each row of table `d`: the columns stand between the two texts.
macro_rules! query_deliveries {
    ($before:literal, $after:literal, $($parameter:expr),+) => {
        sqlx::query_as!(
            DeliveryRow,
            $before
                + r#" d.delivery_id AS "delivery_id!", d.webhook_id AS "webhook_id!",
                      d.event_id AS "event_id!", d.message_type AS "message_type!", d.shard,
                      d.position, d.state AS "state!", d.attempts AS "attempts!",
                      d.next_attempt_at, d.last_attempt_at, d.last_status, d.last_error,
                      d.response, d.created_at AS "created_at!" "#
                + $after,
            $($parameter),+
        )
    };
}

/// Stores the outcome of an attempt of a delivery that was read before. Has no effect if another attempt is stored
/// meanwhile, unless the message was delivered: a delivered one stays so. A retry that was requested meanwhile stays
/// requested. Does nothing if the delivery is deleted.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn store_attempt(
    pool: &PgPool,
    read: &StoredDelivery,
    record: &DeliveryRecord,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE event_store.webhook_deliveries
        SET state = CASE WHEN $2 = 'delivered' OR next_attempt_at = $10 THEN $2 ELSE state END,
            next_attempt_at =
                CASE WHEN $2 = 'delivered' OR next_attempt_at = $10 THEN $4 ELSE next_attempt_at END,
            attempts = greatest(attempts, $3), last_attempt_at = $5, last_status = $6,
            last_error = $7, response = $8
        WHERE delivery_id = $1 AND ($2 = 'delivered' OR (state = 'waiting' AND attempts = $9))
        ",
        read.delivery_id.uuid(),
        record.state.name(),
        record.attempts,
        record.next_attempt_at,
        record.last_attempt_at,
        record.last_status,
        record.last_error.as_deref().map(storable),
        record.response.as_deref().map(storable),
        read.attempts,
        read.next_attempt_at
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Stores the health of a webhook's receiver, but neither begins nor ends that an operator must act. The end of an
/// illness makes the deliveries due whose last attempt met it, and the end of the time without a success forgets its
/// notices. Does nothing if the webhook has changed since `updated_at`, or is deleted.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn store_health(
    executor: impl PgExecutor<'_>,
    webhook_id: WebhookId,
    updated_at: OffsetDateTime,
    health: &WebhookHealth,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        WITH webhook AS (
            -- Locked, so that a change of the owner, which may cure the receiver, is before or after.
            SELECT webhook_id FROM event_store.webhooks
            WHERE webhook_id = $1 AND updated_at = $2
            FOR SHARE
        ), recovered AS (
            -- What was attempted while the receiver was ill is due when it is no more.
            UPDATE event_store.webhook_deliveries AS d
            SET next_attempt_at = least(d.next_attempt_at, $8)
            FROM webhook, event_store.webhook_health AS h
            WHERE $3::timestamptz IS NULL AND h.webhook_id = $1 AND h.ill_since IS NOT NULL
              AND d.webhook_id = $1 AND d.state = 'waiting' AND d.attempts > 0
              AND (d.last_status IS NULL OR d.last_status >= 500 OR d.last_status IN (408, 425, 429))
        )
        UPDATE event_store.webhook_health AS h
        SET ill_since = $3, probes = $4, next_probe_at = $5, failing_since = $6,
            notified_hours = CASE WHEN $6::timestamptz IS NULL THEN 0 ELSE h.notified_hours END,
            last_success_at = $7, last_attempt_at = $8, last_status = $9, last_error = $10
        FROM webhook
        WHERE h.webhook_id = webhook.webhook_id
        ",
        webhook_id.uuid(),
        updated_at,
        health.ill_since,
        health.probes,
        health.next_probe_at,
        health.failing_since,
        health.last_success_at,
        health.last_attempt_at,
        health.last_status,
        health.last_error.as_deref().map(storable)
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Stores that an operator must act before messages of a webhook can be sent, for this reason, or none any more.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn store_blocked(
    pool: &PgPool,
    webhook_id: WebhookId,
    now: OffsetDateTime,
    reason: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE event_store.webhook_health
        SET blocked_since = CASE WHEN $3::text IS NOT NULL THEN coalesce(blocked_since, $2) END,
            -- The error of an attempt since then stays.
            last_error = coalesce($3, CASE WHEN last_attempt_at > blocked_since THEN last_error END)
        WHERE webhook_id = $1
        ",
        webhook_id.uuid(),
        now,
        reason.map(storable)
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Reads up to `limit` waiting deliveries of a webhook whose next attempt is due, in the order of these times.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read a row.
pub async fn due(
    pool: &PgPool,
    webhook_id: WebhookId,
    now: OffsetDateTime,
    limit: i64,
) -> sqlx::Result<Vec<StoredDelivery>> {
    let rows = query_deliveries!(
        "SELECT",
        "FROM event_store.webhook_deliveries AS d
         WHERE webhook_id = $1 AND state = 'waiting' AND next_attempt_at <= $2
         ORDER BY next_attempt_at
         LIMIT $3",
        webhook_id.uuid(),
        now,
        limit
    );
    stored(rows.fetch_all(pool).await?)
}

/// Makes the waiting deliveries of a webhook due whose last attempt is in the future: the clock was ahead, and so is
/// their schedule.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn reschedule_future(
    pool: &PgPool,
    webhook_id: WebhookId,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE event_store.webhook_deliveries
        SET next_attempt_at = $2
        WHERE webhook_id = $1 AND state = 'waiting' AND last_attempt_at > $2::timestamptz + interval '1 minute'
        ",
        webhook_id.uuid(),
        now
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Returns the enabled webhooks with a delivery that is due, or with a replay.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn webhooks_with_due(pool: &PgPool, now: OffsetDateTime) -> sqlx::Result<Vec<WebhookId>> {
    let ids = sqlx::query_scalar!(
        r#"
        SELECT w.webhook_id AS "webhook_id!"
        FROM event_store.webhooks AS w
        -- Not EXISTS: planned on empty tables, it would read all deliveries.
        CROSS JOIN LATERAL (
            (SELECT FROM event_store.webhook_deliveries
             WHERE webhook_id = w.webhook_id AND state = 'waiting' AND next_attempt_at <= $1
             LIMIT 1)
            UNION ALL
            (SELECT FROM event_store.webhook_cursors
             WHERE webhook_id = w.webhook_id AND is_replay
             LIMIT 1)
            LIMIT 1
        ) AS due
        WHERE w.enabled
        ORDER BY w.webhook_id
        "#,
        now
    )
    .fetch_all(pool)
    .await?;
    Ok(ids.into_iter().map(WebhookId::from_uuid).collect())
}

/// Counts the waiting deliveries of a webhook, up to `limit`.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn waiting_count(pool: &PgPool, webhook_id: WebhookId, limit: i64) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"
        SELECT count(*) AS "count!"
        FROM (
            SELECT FROM event_store.webhook_deliveries
            WHERE webhook_id = $1 AND state = 'waiting'
            LIMIT $2
        ) AS waiting
        "#,
        webhook_id.uuid(),
        limit
    )
    .fetch_one(pool)
    .await
}

/// Deletes deliveries of a webhook in a state but the newest `kept`, at most [`TRIMMED_MAX`]. Returns the number.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn trim(
    pool: &PgPool,
    webhook_id: WebhookId,
    state: DeliveryState,
    kept: i64,
) -> sqlx::Result<u64> {
    let trimmed = sqlx::query!(
        "
        WITH old AS (
            SELECT delivery_id FROM event_store.webhook_deliveries
            WHERE webhook_id = $1 AND state = $2
            ORDER BY delivery_id DESC
            OFFSET $3
            LIMIT $4
        )
        DELETE FROM event_store.webhook_deliveries
        -- Not IN: planned on empty tables, it would read all deliveries.
        WHERE webhook_id = $1 AND state = $2
          AND delivery_id >= (SELECT delivery_id FROM old ORDER BY delivery_id LIMIT 1)
          AND delivery_id <= (SELECT delivery_id FROM old ORDER BY delivery_id DESC LIMIT 1)
        ",
        webhook_id.uuid(),
        state.name(),
        kept,
        i64::try_from(TRIMMED_MAX).unwrap_or(i64::MAX)
    )
    .execute(pool)
    .await?;
    Ok(trimmed.rows_affected())
}

/// Lists up to `limit` deliveries of a webhook, newest first, that are older than the delivery `after`.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read a row.
pub async fn list(
    pool: &PgPool,
    webhook_id: WebhookId,
    state: Option<DeliveryState>,
    after: Option<DeliveryId>,
    limit: i64,
) -> sqlx::Result<Vec<StoredDelivery>> {
    let states: Vec<&str> = match state {
        Some(state) => vec![state.name()],
        None => DeliveryState::ALL.map(DeliveryState::name).to_vec(),
    };
    // The index has the deliveries of each state in order.
    let rows = query_deliveries!(
        "SELECT",
        "FROM unnest($2::text[]) AS wanted (state)
         CROSS JOIN LATERAL (
             SELECT * FROM event_store.webhook_deliveries
             WHERE webhook_id = $1 AND state = wanted.state AND delivery_id < $3
             ORDER BY delivery_id DESC
             LIMIT $4
         ) AS d
         ORDER BY d.delivery_id DESC
         LIMIT $4",
        webhook_id.uuid(),
        &states as &[&str],
        after.map_or(Uuid::max(), DeliveryId::uuid),
        limit
    );
    stored(rows.fetch_all(pool).await?)
}

/// Reads a delivery of a webhook.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the row.
pub async fn get(
    pool: &PgPool,
    webhook_id: WebhookId,
    delivery_id: DeliveryId,
) -> sqlx::Result<Option<StoredDelivery>> {
    let row = query_deliveries!(
        "SELECT",
        "FROM event_store.webhook_deliveries AS d WHERE delivery_id = $2 AND webhook_id = $1",
        webhook_id.uuid(),
        delivery_id.uuid()
    );
    let row = row.fetch_optional(pool).await?;
    row.map(DeliveryRow::into_stored).transpose()
}

/// Makes a delivery of a webhook due at `now`, whatever its state is. Returns `None` if there is no such delivery.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the row.
pub async fn retry_now(
    executor: impl PgExecutor<'_>,
    webhook_id: WebhookId,
    delivery_id: DeliveryId,
    now: OffsetDateTime,
) -> sqlx::Result<Option<StoredDelivery>> {
    let row = query_deliveries!(
        "UPDATE event_store.webhook_deliveries AS d
         SET state = 'waiting', next_attempt_at = $3
         WHERE delivery_id = $2 AND webhook_id = $1
         RETURNING",
        "",
        webhook_id.uuid(),
        delivery_id.uuid(),
        now
    );
    let row = row.fetch_optional(executor).await?;
    row.map(DeliveryRow::into_stored).transpose()
}

/// Stores a test of a webhook, due at `now`.
///
/// # Errors
/// Returns an error if the database fails, or there is no such webhook (`webhook_deliveries_webhook_known`).
pub async fn insert_test(
    executor: impl PgExecutor<'_>,
    webhook_id: WebhookId,
    event_id: EventId,
    now: OffsetDateTime,
) -> sqlx::Result<DeliveryId> {
    let delivery_id = DeliveryId::from_uuid(new_uuid(now));
    sqlx::query!(
        "
        INSERT INTO event_store.webhook_deliveries
            (delivery_id, webhook_id, event_id, message_type, state, attempts, next_attempt_at,
             created_at)
        VALUES ($1, $2, $3, $4, 'waiting', 0, $5, $5)
        ",
        delivery_id.uuid(),
        webhook_id.uuid(),
        event_id.uuid(),
        MessageType::Test.name(),
        now
    )
    .execute(executor)
    .await?;
    Ok(delivery_id)
}

/// Returns what can be stored of a text from outside: not too much, and without NUL, which Postgres refuses.
pub fn storable(text: &str) -> String {
    let characters = text.chars().filter(|character| *character != '\0');
    characters.take(TEXT_LENGTH_MAX).collect()
}

fn stored(rows: Vec<DeliveryRow>) -> sqlx::Result<Vec<StoredDelivery>> {
    rows.into_iter().map(DeliveryRow::into_stored).collect()
}
