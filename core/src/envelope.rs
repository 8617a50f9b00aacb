//! An event with its metadata: [`NewEvent`] before the append, [`RecordedEvent`] after it.

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
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "state_known_here"
    )]
    pub link: Option<LinkState>,
}

/// A later release may keep a state that is none here. Its event is not decided on by this one, and
/// must not keep it from reading on.
fn state_known_here<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<LinkState>, D::Error> {
    let state = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(state.and_then(|state| serde_json::from_value(state).ok()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_a_later_release_keeps_is_none_here_and_the_rest_is_read() {
        let stored = r#"{ "actor": "operator", "link": { "frozen": true }, "later": 1 }"#;
        let metadata: Metadata = serde_json::from_str(stored).unwrap();
        let expected = Metadata {
            actor: Some("operator".to_owned()),
            ..Metadata::default()
        };
        assert_eq!(metadata, expected);
    }
}
