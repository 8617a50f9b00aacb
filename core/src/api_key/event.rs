//! Events of an account's API keys. None has a secret or the hash of a secret.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{
    change::{Change, ValueChange},
    field::TEXT_LENGTH_MAX,
    id::{AccountId, KeyId},
    link::Expiry,
    timestamp,
};

/// An event of an account's stream that concerns an API key. Projections must match every variant without a
/// wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKeyEvent {
    /// An operator issued a key.
    Issued(ApiKeyIssued),
    /// An operator changed a key.
    Changed(ApiKeyChanged),
    /// An operator replaced a key by another one.
    Rotated(ApiKeyRotated),
    /// An operator revoked a key.
    Revoked(ApiKeyRevoked),
}

/// An operator issued an API key of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ApiKeyIssued {
    /// Account that the key acts for.
    pub account_id: AccountId,
    /// Public id of the key.
    pub key_id: KeyId,
    /// Name of the key, for people.
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
    pub name: String,
    /// Permissions of the key.
    pub scopes: Vec<String>,
    /// Instant from which the key is refused. Absent if the key does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Expiry")]
    pub expires_at: Option<Expiry>,
}

/// An operator changed the name, the permissions or the expiry of an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ApiKeyChanged {
    /// Account that the key acts for.
    pub account_id: AccountId,
    /// Public id of the key.
    pub key_id: KeyId,
    /// Changed members, at least one, each with its value before and after the change. A member that did not
    /// change is absent.
    pub changes: ApiKeyChanges,
}

/// Changed members of an API key; a member that did not change is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct ApiKeyChanges {
    /// Change of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<String>")]
    pub name: Option<Change<String>>,
    /// Change of the permissions; the lists have all permissions before and after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<Vec<String>>")]
    pub scopes: Option<Change<Vec<String>>>,
    /// Change of the expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<Expiry>")]
    pub expires_at: Option<ValueChange<Expiry>>,
}

/// An operator replaced an API key by another one.
///
/// The `ApiKeyIssued` of the other key has the position right before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ApiKeyRotated {
    /// Account that both keys act for.
    pub account_id: AccountId,
    /// Public id of the replaced key.
    pub key_id: KeyId,
    /// Public id of the other key.
    pub new_key_id: KeyId,
    /// Instant from which the replaced key is refused, by the database's clock.
    #[serde(with = "timestamp")]
    #[schemars(with = "Expiry")]
    pub overlap_until: OffsetDateTime,
}

/// An operator revoked an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ApiKeyRevoked {
    /// Account that the key acted for.
    pub account_id: AccountId,
    /// Public id of the key.
    pub key_id: KeyId,
    /// Instant from which the key is refused, by the database's clock.
    #[serde(with = "timestamp")]
    #[schemars(with = "Expiry")]
    pub revoked_at: OffsetDateTime,
}

impl ApiKeyEvent {
    /// Returns the key that the event is about; the replaced one of a rotation.
    pub const fn key_id(&self) -> KeyId {
        match self {
            Self::Issued(event) => event.key_id,
            Self::Changed(event) => event.key_id,
            Self::Rotated(event) => event.key_id,
            Self::Revoked(event) => event.key_id,
        }
    }
}
