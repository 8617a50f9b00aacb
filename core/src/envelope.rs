//! An event with its metadata: [`NewEvent`] before the append, [`RecordedEvent`] after it.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    event::{DecodeError, Event},
    id::{AccountId, EventId},
    json::Fingerprint,
    link::{ExistingLink, LinkEvent, LinkState},
    shard::{Position, Shard},
};

/// Circumstances of an event that are no part of the fact itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Who asked for it: an API key's id, or the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// W3C trace context of that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Which renderer wrote the answer to the command; a replay uses the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer: Option<u8>,
    /// On each event of a link but the first: what the link is after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkState>,
}

/// The effect that a key stands for, and the body that came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyMark {
    /// `create:<uuid>`, `grant:<key>` or `adjust:<key>`; unique within an account.
    pub key: String,
    /// Of the request that had the effect.
    pub fingerprint: Fingerprint,
}

/// An event on its way into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Its own id.
    pub event_id: EventId,
    /// The account whose shard it goes to.
    pub account_id: AccountId,
    /// Its place in its stream, from 1.
    pub version: i64,
    /// When it was decided.
    pub recorded_at: OffsetDateTime,
    /// The fact.
    pub event: Event,
    /// Its circumstances.
    pub metadata: Metadata,
    /// Present on the one event of an effect that carries its key.
    pub idempotency: Option<IdempotencyMark>,
}

impl NewEvent {
    /// An event of a link's stream that is not its first: `after` is the link after it, which its
    /// metadata keeps.
    pub fn of_link(
        event_id: EventId,
        recorded_at: OffsetDateTime,
        event: LinkEvent,
        after: &ExistingLink,
        metadata: Metadata,
    ) -> Self {
        Self {
            event_id,
            account_id: after.created.account_id,
            version: after.version,
            recorded_at,
            event: Event::Link(event),
            metadata: Metadata {
                link: Some(after.state.clone()),
                ..metadata
            },
            idempotency: None,
        }
    }
}

/// An event of the log, as stored; its payload is decoded on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The shard of its account.
    pub shard: Shard,
    /// Its place in the shard.
    pub position: Position,
    /// The stream it belongs to: the UUID of a link or of an account.
    pub stream_id: Uuid,
    /// Its place in its stream.
    pub version: i64,
    /// The account it concerns.
    pub account_id: AccountId,
    /// Its own id.
    pub event_id: EventId,
    /// The stored type name.
    pub event_type: String,
    /// The version of the payload's schema.
    pub schema_version: i16,
    /// JSON text, byte for byte as written.
    pub payload: String,
    /// Its circumstances.
    pub metadata: Metadata,
    /// When it was decided.
    pub recorded_at: OffsetDateTime,
}

impl RecordedEvent {
    /// The fact.
    ///
    /// # Errors
    /// [`DecodeError`] when this release can't read it.
    pub fn decode(&self) -> Result<Event, DecodeError> {
        Event::from_stored(&self.event_type, self.schema_version, &self.payload)
    }
}
