//! Every kind of event in the log, and its stored form: type name, schema version, JSON payload.
//!
//! The payload is at once the `data` of the record on Kafka (contract §12).

use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::{
    credits::CreditsEvent,
    id::{AccountId, LinkId},
    link::LinkEvent,
};

/// A fact, past tense. Stored for ever, changed never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// In a link's stream.
    Link(LinkEvent),
    /// In an account's stream.
    Credits(CreditsEvent),
}

/// The stored form can't be read by this release.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Written by a later release, or not by us.
    #[error("unknown event `{event_type}` version {schema_version}")]
    Unknown {
        /// The stored type name.
        event_type: String,
        /// The stored schema version.
        schema_version: i16,
    },
    /// The payload has not the form that its type and version promise.
    #[error("malformed payload of `{event_type}`")]
    Payload {
        /// The stored type name.
        event_type: String,
        /// What the reader says.
        #[source]
        source: serde_json::Error,
    },
}

/// What a stream, and the subject of a record, is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A link's stream.
    Link(LinkId),
    /// An account's stream.
    Account(AccountId),
}

impl Subject {
    /// The id of the stream, as it is stored in SQL.
    pub const fn stream_id(self) -> Uuid {
        match self {
            Self::Link(link_id) => link_id.uuid(),
            Self::Account(account_id) => account_id.uuid(),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Link(link_id) => link_id.fmt(f),
            Self::Account(account_id) => account_id.fmt(f),
        }
    }
}

impl Event {
    /// The stored type name; a contract.
    pub const fn event_type(&self) -> &'static str {
        match self {
            Self::Link(LinkEvent::Created(_)) => "LinkCreated",
            Self::Credits(CreditsEvent::Granted(_)) => "CreditsGranted",
            Self::Credits(CreditsEvent::Charged(_)) => "CreditsCharged",
        }
    }

    /// The version of the payload's schema that this release writes.
    pub const fn schema_version(&self) -> i16 {
        match self {
            Self::Link(LinkEvent::Created(_))
            | Self::Credits(CreditsEvent::Granted(_) | CreditsEvent::Charged(_)) => 1,
        }
    }

    /// The stream it belongs to.
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Link(LinkEvent::Created(created)) => Subject::Link(created.link_id),
            Self::Credits(CreditsEvent::Granted(granted)) => Subject::Account(granted.account_id),
            Self::Credits(CreditsEvent::Charged(charged)) => Subject::Account(charged.account_id),
        }
    }

    /// The payload as JSON text; stored and sent as these bytes.
    pub fn to_payload(&self) -> String {
        match self {
            Self::Link(LinkEvent::Created(created)) => serde_json::to_string(created),
            Self::Credits(CreditsEvent::Granted(granted)) => serde_json::to_string(granted),
            Self::Credits(CreditsEvent::Charged(charged)) => serde_json::to_string(charged),
        }
        .expect("payloads are plain structs with string keys")
    }

    /// The event of that stored form.
    ///
    /// # Errors
    /// [`DecodeError`] when it is of no type and version known here, or not of its own schema.
    pub fn from_stored(
        event_type: &str,
        schema_version: i16,
        payload: &str,
    ) -> Result<Self, DecodeError> {
        fn read<T: DeserializeOwned>(event_type: &str, payload: &str) -> Result<T, DecodeError> {
            serde_json::from_str(payload).map_err(|source| DecodeError::Payload {
                event_type: event_type.to_owned(),
                source,
            })
        }
        match (event_type, schema_version) {
            ("LinkCreated", 1) => {
                read(event_type, payload).map(|it| Self::Link(LinkEvent::Created(it)))
            }
            ("CreditsGranted", 1) => {
                read(event_type, payload).map(|it| Self::Credits(CreditsEvent::Granted(it)))
            }
            ("CreditsCharged", 1) => {
                read(event_type, payload).map(|it| Self::Credits(CreditsEvent::Charged(it)))
            }
            _ => Err(DecodeError::Unknown {
                event_type: event_type.to_owned(),
                schema_version,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One file for each version of each event ever written.
    const GOLDEN: [(&str, i16, &str); 3] = [
        (
            "LinkCreated",
            1,
            include_str!("../tests/events/LinkCreated.v1.json"),
        ),
        (
            "CreditsGranted",
            1,
            include_str!("../tests/events/CreditsGranted.v1.json"),
        ),
        (
            "CreditsCharged",
            1,
            include_str!("../tests/events/CreditsCharged.v1.json"),
        ),
    ];

    #[test]
    fn every_event_ever_written_is_read_and_written_back_byte_for_byte() {
        for (event_type, schema_version, payload) in GOLDEN {
            let payload = payload.trim_end();
            let event = Event::from_stored(event_type, schema_version, payload).unwrap();
            assert_eq!(event.event_type(), event_type);
            assert_eq!(event.schema_version(), schema_version);
            assert_eq!(event.to_payload(), payload);
        }
    }

    #[test]
    fn later_members_are_ignored_and_unknown_types_are_named() {
        let payload = GOLDEN[0].2.trim_end().replacen('{', r#"{"later":1,"#, 1);
        assert!(Event::from_stored("LinkCreated", 1, &payload).is_ok());
        let error = Event::from_stored("LinkCreated", 2, "{}").unwrap_err();
        assert_eq!(error.to_string(), "unknown event `LinkCreated` version 2");
        let error = Event::from_stored("LinkCreated", 1, "{}").unwrap_err();
        assert_eq!(error.to_string(), "malformed payload of `LinkCreated`");
    }
}
