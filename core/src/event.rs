//! Every kind of event in the log, and its stored form: type name, schema version, JSON payload.
//!
//! The payload is at once the `data` of the record on Kafka (contract §12).

use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::{
    account::AccountEvent,
    credits::CreditsEvent,
    id::{AccountId, InvalidId, LinkId},
    link::LinkEvent,
};

/// A fact, past tense. Stored for ever, changed never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// In a link's stream.
    Link(LinkEvent),
    /// In an account's stream.
    Account(AccountEvent),
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

impl std::str::FromStr for Subject {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let link = text.parse().map(Self::Link);
        link.or_else(|_| text.parse().map(Self::Account))
    }
}

impl Event {
    /// The stored type name; a contract.
    pub const fn event_type(&self) -> &'static str {
        match self {
            Self::Link(LinkEvent::Created(_)) => "LinkCreated",
            Self::Link(LinkEvent::DestinationChanged(_)) => "LinkDestinationChanged",
            Self::Link(LinkEvent::Deleted(_)) => "LinkDeleted",
            Self::Link(LinkEvent::Disabled(_)) => "LinkDisabled",
            Self::Link(LinkEvent::Enabled(_)) => "LinkEnabled",
            Self::Account(AccountEvent::Suspended(_)) => "AccountSuspended",
            Self::Account(AccountEvent::Resumed(_)) => "AccountResumed",
            Self::Credits(CreditsEvent::Granted(_)) => "CreditsGranted",
            Self::Credits(CreditsEvent::Adjusted(_)) => "CreditsAdjusted",
            Self::Credits(CreditsEvent::Charged(_)) => "CreditsCharged",
        }
    }

    /// The version of the payload's schema that this release writes; all are in their first.
    pub const fn schema_version(&self) -> i16 {
        match self {
            Self::Link(_) | Self::Account(_) | Self::Credits(_) => 1,
        }
    }

    /// The stream it belongs to.
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Link(event) => Subject::Link(event.link_id()),
            Self::Account(event) => Subject::Account(event.account_id()),
            Self::Credits(event) => Subject::Account(event.account_id()),
        }
    }

    /// The payload as JSON text; stored and sent as these bytes.
    pub fn to_payload(&self) -> String {
        match self {
            Self::Link(LinkEvent::Created(payload)) => serde_json::to_string(payload),
            Self::Link(LinkEvent::DestinationChanged(payload)) => serde_json::to_string(payload),
            Self::Link(LinkEvent::Deleted(payload)) => serde_json::to_string(payload),
            Self::Link(LinkEvent::Disabled(payload)) => serde_json::to_string(payload),
            Self::Link(LinkEvent::Enabled(payload)) => serde_json::to_string(payload),
            Self::Account(AccountEvent::Suspended(payload)) => serde_json::to_string(payload),
            Self::Account(AccountEvent::Resumed(payload)) => serde_json::to_string(payload),
            Self::Credits(CreditsEvent::Granted(payload)) => serde_json::to_string(payload),
            Self::Credits(CreditsEvent::Adjusted(payload)) => serde_json::to_string(payload),
            Self::Credits(CreditsEvent::Charged(payload)) => serde_json::to_string(payload),
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
        let link = Self::Link;
        let account = Self::Account;
        let credits = Self::Credits;
        match (event_type, schema_version) {
            ("LinkCreated", 1) => read(payload).map(LinkEvent::Created).map(link),
            ("LinkDestinationChanged", 1) => {
                read(payload).map(LinkEvent::DestinationChanged).map(link)
            }
            ("LinkDeleted", 1) => read(payload).map(LinkEvent::Deleted).map(link),
            ("LinkDisabled", 1) => read(payload).map(LinkEvent::Disabled).map(link),
            ("LinkEnabled", 1) => read(payload).map(LinkEvent::Enabled).map(link),
            ("AccountSuspended", 1) => read(payload).map(AccountEvent::Suspended).map(account),
            ("AccountResumed", 1) => read(payload).map(AccountEvent::Resumed).map(account),
            ("CreditsGranted", 1) => read(payload).map(CreditsEvent::Granted).map(credits),
            ("CreditsAdjusted", 1) => read(payload).map(CreditsEvent::Adjusted).map(credits),
            ("CreditsCharged", 1) => read(payload).map(CreditsEvent::Charged).map(credits),
            _ => {
                return Err(DecodeError::Unknown {
                    event_type: event_type.to_owned(),
                    schema_version,
                });
            }
        }
        .map_err(|source| DecodeError::Payload {
            event_type: event_type.to_owned(),
            source,
        })
    }
}

fn read<T: DeserializeOwned>(payload: &str) -> serde_json::Result<T> {
    serde_json::from_str(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One file for each version of each event ever written.
    const GOLDEN: [(&str, i16, &str); 10] = [
        (
            "LinkCreated",
            1,
            include_str!("../tests/events/LinkCreated.v1.json"),
        ),
        (
            "LinkDestinationChanged",
            1,
            include_str!("../tests/events/LinkDestinationChanged.v1.json"),
        ),
        (
            "LinkDeleted",
            1,
            include_str!("../tests/events/LinkDeleted.v1.json"),
        ),
        (
            "LinkDisabled",
            1,
            include_str!("../tests/events/LinkDisabled.v1.json"),
        ),
        (
            "LinkEnabled",
            1,
            include_str!("../tests/events/LinkEnabled.v1.json"),
        ),
        (
            "AccountSuspended",
            1,
            include_str!("../tests/events/AccountSuspended.v1.json"),
        ),
        (
            "AccountResumed",
            1,
            include_str!("../tests/events/AccountResumed.v1.json"),
        ),
        (
            "CreditsGranted",
            1,
            include_str!("../tests/events/CreditsGranted.v1.json"),
        ),
        (
            "CreditsAdjusted",
            1,
            include_str!("../tests/events/CreditsAdjusted.v1.json"),
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
