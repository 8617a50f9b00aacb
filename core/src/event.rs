//! Every kind of event in the log, and its stored form: type name, schema version, JSON payload.
//!
//! The payload is at once the `data` of the record on Kafka (contract §12).

mod upcast;

use uuid::Uuid;

use crate::{
    account::{AccountEvent, AccountResumed, AccountSuspended},
    credits::{CreditsAdjusted, CreditsCharged, CreditsEvent, CreditsGranted},
    id::{AccountId, InvalidId, LinkId},
    link::{
        LinkCreated, LinkDeleted, LinkDestinationChanged, LinkDisabled, LinkEnabled, LinkEvent,
    },
};
use upcast::{UPCASTERS, Upcaster};

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
        let subject = link.or_else(|_| text.parse().map(Self::Account));
        subject.map_err(|_| InvalidId("lnk_ or acc_"))
    }
}

/// From one row for each kind of event: its variant, payload, type name and schema version.
macro_rules! catalogue {
    ($($stream:ident($event:ident::$variant:ident($payload:ty)) = $event_type:literal, $version:literal;)+) => {
        /// Type name and schema version of every kind of event that this release writes.
        pub const CATALOGUE: &[(&str, i16)] = &[$(($event_type, $version)),+];

        impl Event {
            /// The stored type name; a contract.
            pub const fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$stream($event::$variant(_)) => $event_type,)+
                }
            }

            /// The version of the payload's schema that this release writes.
            pub const fn schema_version(&self) -> i16 {
                match self {
                    $(Self::$stream($event::$variant(_)) => $version,)+
                }
            }

            /// The payload as JSON text; stored and sent as these bytes.
            pub fn to_payload(&self) -> String {
                match self {
                    $(Self::$stream($event::$variant(payload)) => serde_json::to_string(payload),)+
                }
                .expect("payloads are plain structs with string keys")
            }

            /// `None`: not what this release writes.
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

            /// The JSON Schema of the payload of each row of the catalogue, in its order.
            #[cfg(feature = "schema")]
            pub fn payload_schemas() -> Vec<schemars::Schema> {
                vec![$(schemars::schema_for!($payload)),+]
            }
        }
    };
}

catalogue! {
    Link(LinkEvent::Created(LinkCreated)) = "LinkCreated", 1;
    Link(LinkEvent::DestinationChanged(LinkDestinationChanged)) = "LinkDestinationChanged", 1;
    Link(LinkEvent::Deleted(LinkDeleted)) = "LinkDeleted", 1;
    Link(LinkEvent::Disabled(LinkDisabled)) = "LinkDisabled", 1;
    Link(LinkEvent::Enabled(LinkEnabled)) = "LinkEnabled", 1;
    Account(AccountEvent::Suspended(AccountSuspended)) = "AccountSuspended", 1;
    Account(AccountEvent::Resumed(AccountResumed)) = "AccountResumed", 1;
    Credits(CreditsEvent::Granted(CreditsGranted)) = "CreditsGranted", 1;
    Credits(CreditsEvent::Adjusted(CreditsAdjusted)) = "CreditsAdjusted", 1;
    Credits(CreditsEvent::Charged(CreditsCharged)) = "CreditsCharged", 1;
}

impl Event {
    /// The stream it belongs to.
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Link(event) => Subject::Link(event.link_id()),
            Self::Account(event) => Subject::Account(event.account_id()),
            Self::Credits(event) => Subject::Account(event.account_id()),
        }
    }

    /// The event of that stored form, whichever of its versions that is.
    ///
    /// # Errors
    /// [`DecodeError`] when it is of no type and version known here, or not of its own schema.
    pub fn from_stored(
        event_type: &str,
        schema_version: i16,
        payload: &str,
    ) -> Result<Self, DecodeError> {
        Self::upcast_from(UPCASTERS, event_type, schema_version, payload)
    }

    fn upcast_from(
        upcasters: &[Upcaster],
        event_type: &str,
        schema_version: i16,
        payload: &str,
    ) -> Result<Self, DecodeError> {
        let malformed = |source| DecodeError::Payload {
            event_type: event_type.to_owned(),
            source,
        };
        let (newest_version, payload) =
            upcast::apply_all(upcasters, event_type, schema_version, payload).map_err(malformed)?;
        let event = Self::read(event_type, newest_version, &payload);
        let event = event.ok_or_else(|| DecodeError::Unknown {
            event_type: event_type.to_owned(),
            schema_version,
        })?;
        event.map_err(malformed)
    }
}

#[cfg(test)]
mod tests;
