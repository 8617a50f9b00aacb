//! An event with its metadata: [`NewEvent`] before the append, [`RecordedEvent`] after the append.

use std::fmt;

use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    account::AccountAfter,
    event::{DecodeError, Event},
    id::{AccountId, EventId},
    json::Fingerprint,
    link::{ExistingLink, LinkEvent, LinkState},
    shard::{Position, Shard},
};

/// Actor of an event that an operator has caused by the command line; owners see it for admin keys too.
pub const OPERATOR: &str = "operator";

/// Metadata of an event: circumstances that are not part of the fact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Id of the API key or of the admin key that requested the change, or `operator` for a command line.
    /// Owners see `operator` for an admin key too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Name of the person who ran the command line; only with the actor `operator`. Never published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Id of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// W3C trace context of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Version of the code that rendered the answer to the command; a replay uses the same version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer: Option<u8>,
    /// State of the link after the event; set on every event of a link but its creation, whose payload
    /// is the state. A creation has one only if a later release knows more of the link than the payload
    /// says to this release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<StateAfter>,
    /// The account after the event; set on every event of an account itself. Never published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountAfter>,
}

/// State of a link after an event, as stored.
///
/// A reader of the log must not stop at the state of a later release, and the relay publishes it
/// unchanged; but no decision and no row comes from a state that is not known as a whole.
// `Debug` shows the host of the destination only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StateAfter {
    /// State that this release knows.
    Known(Box<LinkState>),
    /// State of a later release, or none at all.
    Unknown(Value),
}

impl Metadata {
    /// Decodes stored metadata. Members that this release cannot read must not stop a reader of the log:
    /// then nothing but the state of the link is kept. `log verify` reports them.
    pub fn of_stored(text: &str) -> Self {
        #[derive(Default, Deserialize)]
        struct OnlyLink {
            link: Option<StateAfter>,
        }
        serde_json::from_str(text).unwrap_or_else(|_| {
            let OnlyLink { link } = serde_json::from_str(text).unwrap_or_default();
            Self {
                link,
                ..Self::default()
            }
        })
    }

    /// Returns the state of the link after the event that has these metadata: from the metadata, and from
    /// the payload of a creation that has none there.
    ///
    /// # Errors
    /// Returns the error of the parser if the metadata hold no state that this release knows.
    pub fn link_after(
        &self,
        event: &LinkEvent,
        recorded_at: OffsetDateTime,
    ) -> serde_json::Result<LinkState> {
        match (&self.link, event) {
            (Some(StateAfter::Known(state)), _) => Ok(LinkState::clone(state)),
            (Some(StateAfter::Unknown(state)), _) => LinkState::deserialize(state),
            (None, LinkEvent::Created(created)) => Ok(LinkState::new(created, recorded_at)),
            (None, _) => LinkState::deserialize(Value::Null),
        }
    }
}

impl StateAfter {
    /// Returns the state, if this release knows it.
    pub fn known(&self) -> Option<&LinkState> {
        match self {
            Self::Known(state) => Some(state),
            Self::Unknown(_) => None,
        }
    }
}

impl fmt::Debug for StateAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(state) => state.fmt(f),
            Self::Unknown(_) => f.write_str("unknown"),
        }
    }
}

impl From<LinkState> for StateAfter {
    fn from(state: LinkState) -> Self {
        Self::Known(Box::new(state))
    }
}

/// Idempotency key of an effect, and the fingerprint of the request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyMark {
    /// `create:<uuid>` of links, and `<kind>:<key>` of operators' requests, such as `grant:invoice-4711`; unique
    /// within an account.
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
            account_id: after.account_id,
            version: after.version,
            recorded_at,
            event: Event::Link(event),
            metadata: Metadata {
                link: Some(after.state.clone().into()),
                ..metadata
            },
            idempotency: None,
        }
    }

    /// Returns the event as the log holds it at this position of its shard.
    pub fn recorded(&self, position: Position) -> RecordedEvent {
        RecordedEvent {
            shard: Shard::of(self.account_id),
            position,
            stream_id: self.event.subject().stream_id(),
            version: self.version,
            account_id: self.account_id,
            event_id: self.event_id,
            event_type: self.event.event_type().to_owned(),
            schema_version: self.event.schema_version(),
            payload: self.event.to_payload(),
            metadata: self.metadata.clone(),
            recorded_at: self.recorded_at,
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

    /// Returns the state of the link after the event, whose payload is given decoded.
    ///
    /// # Errors
    /// Returns [`DecodeError::State`] if the metadata hold no state that this release knows.
    pub fn state_after(&self, event: &LinkEvent) -> Result<LinkState, DecodeError> {
        let state = self.metadata.link_after(event, self.recorded_at);
        state.map_err(|source| DecodeError::State {
            event_type: self.event_type.clone(),
            source,
        })
    }

    /// Decodes the event of a link, and returns the link after the event.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if this release cannot read the payload or the state of the link, or the event is
    /// of an account.
    pub fn link_after(&self) -> Result<ExistingLink, DecodeError> {
        let Event::Link(event) = self.decode()? else {
            return Err(DecodeError::State {
                event_type: self.event_type.clone(),
                source: serde_json::Error::custom("an event of an account"),
            });
        };
        Ok(ExistingLink {
            link_id: event.link_id(),
            account_id: self.account_id,
            version: self.version,
            state: self.state_after(&event)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::id::LinkId;

    /// Returns an event with the metadata, which enables a link.
    fn enabled(metadata: &str) -> RecordedEvent {
        let (link_id, account_id) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (link, account) = (LinkId::from_uuid(link_id), AccountId::from_uuid(account_id));
        RecordedEvent {
            shard: Shard::of(account),
            position: 42,
            stream_id: link_id,
            version: 3,
            account_id: account,
            event_id: EventId::from_uuid(Uuid::from_u128(9)),
            event_type: "LinkEnabled".to_owned(),
            schema_version: 1,
            payload: format!(
                r#"{{"link_id":"{link}","account_id":"{account}","reason":"test","by":"operator"}}"#
            ),
            metadata: Metadata::of_stored(metadata),
            recorded_at: datetime!(2026-11-20 09:51:00.123 UTC),
        }
    }

    const STATE: &str = r#"{"slug":"Spring","created_at":"2026-11-20T09:51:00.123Z","destination_url":"https://e.com/"}"#;

    #[test]
    fn stored_state_is_read_and_written_unchanged() {
        let stored = format!(r#"{{"link":{STATE}}}"#);
        let event = enabled(&stored);
        assert_eq!(serde_json::to_string(&event.metadata).unwrap(), stored);
        let link = event.link_after().unwrap();
        assert_eq!(link.version, 3);
        assert_eq!(link.state.slug, "Spring");
        assert_eq!(link.state.details, crate::link::LinkDetails::NONE);
    }

    #[test]
    fn unknown_or_missing_state_stops_no_reader_and_is_no_state() {
        let later = STATE.replace('{', r#"{"frozen":true,"#);
        for (link, written) in [
            (later.as_str(), r#""frozen":true"#),
            (r#"{"frozen":true}"#, r#"{"frozen":true}"#),
            ("7", "7"),
            ("null", "operator"),
        ] {
            let event = enabled(&format!(
                r#"{{"actor":"operator","link":{link},"later":1}}"#
            ));
            assert_eq!(event.metadata.actor.as_deref(), Some("operator"));
            let stored = serde_json::to_string(&event.metadata).unwrap();
            assert!(stored.contains(written), "{stored}");
            let error = event.link_after().unwrap_err();
            assert!(
                matches!(error, DecodeError::State { .. }),
                "{link}: {error:?}"
            );
        }
        let damaged = enabled(r#"{"actor":7}"#);
        assert_eq!(damaged.metadata, Metadata::default());
        assert!(damaged.link_after().is_err());
    }

    #[test]
    fn unreadable_member_hides_no_state() {
        let event = enabled(&format!(r#"{{"actor":{{"key":7}},"link":{STATE}}}"#));
        let stored = serde_json::to_string(&event.metadata).unwrap();
        assert_eq!(stored, format!(r#"{{"link":{STATE}}}"#));
        assert_eq!(event.link_after().unwrap().state.slug, "Spring");
    }

    #[test]
    fn creation_is_its_state_unless_a_later_release_says_more() {
        let enabling = r#""reason":"test","by":"operator""#;
        let creating = r#""slug":"Spring","short_url":"https://sho.rt/Spring","#.to_owned()
            + r#""destination_url":"https://e.com/","frozen":true"#;
        let created = |metadata: &str| RecordedEvent {
            event_type: "LinkCreated".to_owned(),
            payload: enabled("{}").payload.replace(enabling, &creating),
            ..enabled(metadata)
        };
        let link = created(r#"{"actor":"operator"}"#).link_after().unwrap();
        let state: LinkState = serde_json::from_str(STATE).unwrap();
        assert_eq!(link.state, state);
        let later = STATE.replace('{', r#"{"frozen":true,"#);
        let error = created(&format!(r#"{{"link":{later}}}"#)).link_after();
        assert!(matches!(error, Err(DecodeError::State { .. })), "{error:?}");
    }
}
