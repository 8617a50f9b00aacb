//! A delivery as the dispatcher stores it and as it is read.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::unreadable;
use linkledger_core::{
    id::{DeliveryId, EventId, WebhookId},
    shard::{Position, Shard},
    webhook::DeliveryState,
};

/// State of a delivery after its last attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Event that the message is about.
    pub event_id: EventId,
    /// Name of the message's type.
    pub message_type: String,
    /// Shard of the event; `None` for a test.
    pub shard: Option<Shard>,
    /// Position of the event; `None` for a test.
    pub position: Option<Position>,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Number of attempts.
    pub attempts: i32,
    /// Time of the next attempt; of a waiting delivery.
    pub next_attempt_at: Option<OffsetDateTime>,
    /// Time of the last attempt.
    pub last_attempt_at: Option<OffsetDateTime>,
    /// Status of the answer to the last attempt, if there was one.
    pub last_status: Option<i16>,
    /// Error of the last attempt, if it failed.
    pub last_error: Option<String>,
    /// Beginning of the body of the last answer.
    pub response: Option<String>,
}

/// A stored delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    /// Id of the delivery; begins with the time of its first attempt.
    pub delivery_id: DeliveryId,
    /// Webhook that the message is for.
    pub webhook_id: WebhookId,
    /// Event that the message is about.
    pub event_id: EventId,
    /// Name of the message's type.
    pub message_type: String,
    /// Shard of the event; `None` for a test.
    pub shard: Option<Shard>,
    /// Position of the event; `None` for a test.
    pub position: Option<Position>,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Number of attempts.
    pub attempts: i32,
    /// Time of the next attempt; of a waiting delivery.
    pub next_attempt_at: Option<OffsetDateTime>,
    /// Time of the last attempt.
    pub last_attempt_at: Option<OffsetDateTime>,
    /// Status of the answer to the last attempt, if there was one.
    pub last_status: Option<i16>,
    /// Error of the last attempt, if it failed.
    pub last_error: Option<String>,
    /// Beginning of the body of the last answer.
    pub response: Option<String>,
    /// Time at which the delivery was stored.
    pub created_at: OffsetDateTime,
}

/// Row of a delivery.
pub(super) struct DeliveryRow {
    pub(super) delivery_id: Uuid,
    pub(super) webhook_id: Uuid,
    pub(super) event_id: Uuid,
    pub(super) message_type: String,
    pub(super) shard: Option<i16>,
    pub(super) position: Option<i64>,
    pub(super) state: String,
    pub(super) attempts: i32,
    pub(super) next_attempt_at: Option<OffsetDateTime>,
    pub(super) last_attempt_at: Option<OffsetDateTime>,
    pub(super) last_status: Option<i16>,
    pub(super) last_error: Option<String>,
    pub(super) response: Option<String>,
    pub(super) created_at: OffsetDateTime,
}

impl DeliveryRow {
    pub(super) fn into_stored(self) -> sqlx::Result<StoredDelivery> {
        let state = DeliveryState::of_name(&self.state);
        let unknown = || unreadable(format!("no state of a delivery is called `{}`", self.state));
        Ok(StoredDelivery {
            state: state.ok_or_else(unknown)?,
            delivery_id: DeliveryId::from_uuid(self.delivery_id),
            webhook_id: WebhookId::from_uuid(self.webhook_id),
            event_id: EventId::from_uuid(self.event_id),
            message_type: self.message_type,
            shard: self.shard.and_then(|number| Shard::new(number.into())),
            position: self.position,
            attempts: self.attempts,
            next_attempt_at: self.next_attempt_at,
            last_attempt_at: self.last_attempt_at,
            last_status: self.last_status,
            last_error: self.last_error,
            response: self.response,
            created_at: self.created_at,
        })
    }
}
