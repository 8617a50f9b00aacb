//! All types of events, and their stored form: type name, schema version, JSON payload.
//!
//! The stored payload is also the `data` of the record on Kafka (`docs/events.md`).

mod message;
mod owner_view;

pub use self::message::message_data;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    account::{AccountChanged, AccountCreated, AccountEvent, AccountResumed, AccountSuspended},
    api_key::{ApiKeyChanged, ApiKeyEvent, ApiKeyIssued, ApiKeyRevoked, ApiKeyRotated},
    credits::{
        CreditsAdjusted, CreditsCharged, CreditsEvent, CreditsGranted, CreditsRefunded,
        CreditsRevoked,
    },
    id::{AccountId, InvalidId, LinkId},
    link::{
        LinkCreated, LinkDeleted, LinkDestinationChanged, LinkDetailsChanged, LinkDisabled,
        LinkEnabled, LinkEvent,
    },
    observation::{LinkExpired, LinkFirstClicked, LinksClicked, ObservationEvent},
    webhook::{
        WebhookChanged, WebhookCreated, WebhookDeleted, WebhookDisabled, WebhookEvent,
        WebhookFailing, WebhookSecretRotated,
    },
};

/// A fact in the past tense. Events are stored forever and never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An event of a link's stream.
    Link(LinkEvent),
    /// An event of an account's stream about the account itself.
    Account(AccountEvent),
    /// An event of an account's stream about one of its API keys.
    ApiKey(ApiKeyEvent),
    /// An event of an account's stream about one of its webhooks.
    Webhook(WebhookEvent),
    /// An event of an account's stream about its links that no command caused.
    Observation(ObservationEvent),
    /// An event of an account's stream about its credits.
    Credits(CreditsEvent),
}

/// The stored form of an event cannot be read by this release.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// A later release or another program wrote the event.
    #[error("unknown event `{event_type}` version {schema_version}")]
    Unknown {
        /// The stored type name.
        event_type: String,
        /// The stored schema version.
        schema_version: i16,
    },
    /// The payload does not match the schema of its type and version.
    #[error("malformed payload of `{event_type}`")]
    Payload {
        /// The stored type name.
        event_type: String,
        /// Error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
    /// The metadata hold no state of the link that this release knows.
    #[error("`{event_type}` holds no state of the link that this release knows")]
    State {
        /// The stored type name.
        event_type: String,
        /// Error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
}

/// The aggregate of a stream: subject of its events' records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A link.
    Link(LinkId),
    /// An account.
    Account(AccountId),
}

impl Subject {
    /// Returns the id of the stream, as stored in SQL.
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
        let subject = link.or_else(|_| text.parse().map(Self::Account));
        subject.map_err(|_| InvalidId("lnk_ or acc_"))
    }
}

/// Generates the catalogue from one row for each type of event: variant, payload, type name and
/// schema version.
macro_rules! catalogue {
    ($($stream:ident($event:ident::$variant:ident($payload:ty)) = $event_type:literal, $version:literal;)+) => {
        /// Type name and schema version of every type of event that this release writes.
        pub const CATALOGUE: &[(&str, i16)] = &[$(($event_type, $version)),+];

        impl Event {
            /// Returns the stored type name. The name is a contract and never changes.
            pub const fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$stream($event::$variant(_)) => $event_type,)+
                }
            }

            /// Returns the schema version of the payload that this release writes.
            pub const fn schema_version(&self) -> i16 {
                match self {
                    $(Self::$stream($event::$variant(_)) => $version,)+
                }
            }

            /// Returns the account that owns the stream of the event.
            pub const fn account_id(&self) -> AccountId {
                match self {
                    $(Self::$stream($event::$variant(payload)) => payload.account_id,)+
                }
            }

            /// Returns the payload as JSON text, byte for byte as stored and published.
            pub fn to_payload(&self) -> String {
                match self {
                    $(Self::$stream($event::$variant(payload)) => serde_json::to_string(payload),)+
                }
                .expect("payloads are plain structs with string keys")
            }

            /// Returns the payload as a JSON value.
            fn payload_value(&self) -> Value {
                match self {
                    $(Self::$stream($event::$variant(payload)) => serde_json::to_value(payload),)+
                }
                .expect("payloads are plain structs with string keys")
            }

            /// Reads a payload. Returns `None` for a type or version that this release does not write.
            fn read(
                event_type: &str,
                schema_version: i16,
                payload: &str,
            ) -> Option<serde_json::Result<Self>> {
                match (event_type, schema_version) {
                    $(($event_type, $version) => Some(
                        serde_json::from_str::<$payload>(payload)
                            .map(|payload| Self::$stream($event::$variant(payload))),
                    ),)+
                    _ => None,
                }
            }

            /// Returns the JSON Schema of the payload of each row of the catalogue, in order.
            pub fn payload_schemas() -> Vec<schemars::Schema> {
                vec![$(schemars::schema_for!($payload)),+]
            }
        }
    };
}

catalogue! {
    Link(LinkEvent::Created(LinkCreated)) = "LinkCreated", 1;
    Link(LinkEvent::DestinationChanged(LinkDestinationChanged)) = "LinkDestinationChanged", 1;
    Link(LinkEvent::DetailsChanged(LinkDetailsChanged)) = "LinkDetailsChanged", 1;
    Link(LinkEvent::Deleted(LinkDeleted)) = "LinkDeleted", 1;
    Link(LinkEvent::Disabled(LinkDisabled)) = "LinkDisabled", 1;
    Link(LinkEvent::Enabled(LinkEnabled)) = "LinkEnabled", 1;
    Account(AccountEvent::Created(AccountCreated)) = "AccountCreated", 1;
    Account(AccountEvent::Changed(AccountChanged)) = "AccountChanged", 1;
    Account(AccountEvent::Suspended(AccountSuspended)) = "AccountSuspended", 1;
    Account(AccountEvent::Resumed(AccountResumed)) = "AccountResumed", 1;
    ApiKey(ApiKeyEvent::Issued(ApiKeyIssued)) = "ApiKeyIssued", 1;
    ApiKey(ApiKeyEvent::Changed(ApiKeyChanged)) = "ApiKeyChanged", 1;
    ApiKey(ApiKeyEvent::Rotated(ApiKeyRotated)) = "ApiKeyRotated", 1;
    ApiKey(ApiKeyEvent::Revoked(ApiKeyRevoked)) = "ApiKeyRevoked", 1;
    Webhook(WebhookEvent::Created(WebhookCreated)) = "WebhookCreated", 1;
    Webhook(WebhookEvent::Changed(WebhookChanged)) = "WebhookChanged", 1;
    Webhook(WebhookEvent::SecretRotated(WebhookSecretRotated)) = "WebhookSecretRotated", 1;
    Webhook(WebhookEvent::Failing(WebhookFailing)) = "WebhookFailing", 1;
    Webhook(WebhookEvent::Disabled(WebhookDisabled)) = "WebhookDisabled", 1;
    Webhook(WebhookEvent::Deleted(WebhookDeleted)) = "WebhookDeleted", 1;
    Observation(ObservationEvent::LinkExpired(LinkExpired)) = "LinkExpired", 1;
    Observation(ObservationEvent::LinkFirstClicked(LinkFirstClicked)) = "LinkFirstClicked", 1;
    Observation(ObservationEvent::LinksClicked(LinksClicked)) = "LinksClicked", 1;
    Credits(CreditsEvent::Granted(CreditsGranted)) = "CreditsGranted", 1;
    Credits(CreditsEvent::Adjusted(CreditsAdjusted)) = "CreditsAdjusted", 1;
    Credits(CreditsEvent::Charged(CreditsCharged)) = "CreditsCharged", 1;
    Credits(CreditsEvent::Refunded(CreditsRefunded)) = "CreditsRefunded", 1;
    Credits(CreditsEvent::Revoked(CreditsRevoked)) = "CreditsRevoked", 1;
}

impl Event {
    /// Returns the subject of the event: the link or the account whose stream has the event.
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Link(event) => Subject::Link(event.link_id()),
            Self::Account(_)
            | Self::ApiKey(_)
            | Self::Webhook(_)
            | Self::Observation(_)
            | Self::Credits(_) => Subject::Account(self.account_id()),
        }
    }

    /// Reads an event from its stored form.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if the type or version is unknown, or the payload does not match its
    /// schema.
    pub fn from_stored(
        event_type: &str,
        schema_version: i16,
        payload: &str,
    ) -> Result<Self, DecodeError> {
        let event = Self::read(event_type, schema_version, payload);
        let event = event.ok_or_else(|| DecodeError::Unknown {
            event_type: event_type.to_owned(),
            schema_version,
        })?;
        event.map_err(|source| DecodeError::Payload {
            event_type: event_type.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests;
