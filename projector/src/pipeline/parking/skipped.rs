//! Table `read_model.skipped_events`, for operators: marks an event as skipped, and lists the
//! skipped events of an account.

use linkledger_core::{
    id::{AccountId, EventId},
    shard::Position,
    timestamp,
};
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::Parking;

/// Marks the event that the account is parked for as skipped. Returns false if the account is no
/// longer parked, or is parked for another event.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn insert_in_tx(
    tx: &mut PgConnection,
    parking: &Parking,
    event_id: EventId,
    operator: &str,
    reason: &str,
) -> sqlx::Result<bool> {
    let Parking { account, cause } = parking;
    sqlx::query_scalar!(
        r#"
        WITH cause AS (
            SELECT * FROM read_model.parked_accounts
            WHERE account_id = $1 AND projection = $2 AND generation = $3 AND position = $4
        ), noted AS (
            INSERT INTO read_model.skipped_events
                (projection, shard, position, event_id, account_id, event_type, operator, reason)
            SELECT projection, shard, position, $5, account_id, event_type, $6, $7 FROM cause
            ON CONFLICT (projection, shard, position, event_id) DO NOTHING
        )
        SELECT EXISTS (SELECT FROM cause) AS "is_noted!"
        "#,
        account.account_id.uuid(),
        account.projection.name(),
        account.generation,
        cause.position,
        event_id.uuid(),
        operator,
        reason
    )
    .fetch_one(tx)
    .await
}

/// A skipped event with the facts that operators see.
#[derive(Debug, Serialize)]
pub struct ListedSkip {
    /// Position in the shard.
    pub position: Position,
    /// Stored name of the event type.
    pub event_type: String,
    /// Projection that skips the event.
    pub projection: String,
    /// Time of the decision.
    #[serde(serialize_with = "timestamp::serialize")]
    pub skipped_at: OffsetDateTime,
    /// Operator who skipped the event.
    pub operator: String,
    /// Reason that the operator gave.
    pub reason: String,
}

/// Returns the skipped events of an account, ordered by position.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    pool: &PgPool,
    account_id: AccountId,
    limit: i64,
) -> sqlx::Result<Vec<ListedSkip>> {
    sqlx::query_as!(
        ListedSkip,
        "
        SELECT projection, position, event_type, operator, reason, skipped_at
        FROM read_model.skipped_events
        WHERE account_id = $1
        ORDER BY position, projection
        LIMIT $2
        ",
        account_id.uuid(),
        limit
    )
    .fetch_all(pool)
    .await
}
