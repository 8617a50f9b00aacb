//! An event with its metadata: [`NewEvent`] before the append, [`RecordedEvent`] after the append.

use serde::{Deserialize, Deserializer, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    event::{DecodeError, Event},
    id::{AccountId, EventId},
    json::Fingerprint,
    link::{ExistingLink, LinkEvent, LinkState},
    shard::{Position, Shard},
};

/// Metadata of an event: circumstances that are not part of the fact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Id of the API key that requested the change, or the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Id of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// W3C trace context of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Version of the code that rendered the answer to the command; a replay uses the same version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer: Option<u8>,
    /// State of the link after the event; set on every event of a link but the first.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "state_known_here"
    )]
    pub link: Option<LinkState>,
}

impl Metadata {
    /// Decodes stored metadata. Metadata that this release cannot read are empty: they are no part of
    /// the fact, and must not stop a reader of the log. `log verify` reports them.
    pub fn of_stored(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// Reads the state of a link, or `None` if a later release wrote a state that this release does not
/// know. Such an event must not stop a reader; no decision uses the unknown state.
fn state_known_here<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<LinkState>, D::Error> {
    let state = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(state.and_then(|state| serde_json::from_value(state).ok()))
}

/// Idempotency key of an effect, and the fingerprint of the request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyMark {
    /// `create:<uuid>`, `grant:<key>` or `adjust:<key>`; unique within an account.
    pub key: String,
    /// Fingerprint of the request that had the effect.
    pub fingerprint: Fingerprint,
}

/// An event before the append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Id of the event.
    pub event_id: EventId,
    /// Account whose shard the event is appended to.
    pub account_id: AccountId,
    /// Version of the event in its stream, from 1.
    pub version: i64,
    /// Time of the decision.
    pub recorded_at: OffsetDateTime,
    /// The fact.
    pub event: Event,
    /// Metadata of the event.
    pub metadata: Metadata,
    /// Idempotency key. Present on exactly one event of each effect that has a key.
    pub idempotency: Option<IdempotencyMark>,
}

impl NewEvent {
    /// Returns an event of a link that is not the first of its stream. `after` is the link after
    /// the event; its state is kept in the metadata.
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

/// An event of the log, as stored. The payload is decoded on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Shard of the event's account.
    pub shard: Shard,
    /// Position of the event in the shard.
    pub position: Position,
    /// Stream of the event: the UUID of a link or of an account.
    pub stream_id: Uuid,
    /// Version of the event in its stream.
    pub version: i64,
    /// Account that the event concerns.
    pub account_id: AccountId,
    /// Id of the event.
    pub event_id: EventId,
    /// Stored type name.
    pub event_type: String,
    /// Schema version of the payload.
    pub schema_version: i16,
    /// Payload: JSON text, byte for byte as written.
    pub payload: String,
    /// Metadata of the event.
    pub metadata: Metadata,
    /// Time of the decision.
    pub recorded_at: OffsetDateTime,
}

impl RecordedEvent {
    /// Decodes the payload.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if this release cannot read the payload.
    pub fn decode(&self) -> Result<Event, DecodeError> {
        Event::from_stored(&self.event_type, self.schema_version, &self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_link_state_reads_as_none() {
        let stored = r#"{ "actor": "operator", "link": { "frozen": true }, "later": 1 }"#;
        let metadata: Metadata = serde_json::from_str(stored).unwrap();
        let expected = Metadata {
            actor: Some("operator".to_owned()),
            ..Metadata::default()
        };
        assert_eq!(metadata, expected);
    }
}
