//! Events of an account's webhooks. None has a secret: a secret follows from its version and a master key.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{DESCRIPTION_LENGTH_MAX, WebhookUrl};
use crate::{
    change::{Change, ValueChange},
    id::{AccountId, WebhookId},
    link::Expiry,
    timestamp,
};

/// Regular expression of the ids of master keys.
const MASTER_KEY_ID_PATTERN: &str = "^[a-z0-9-]{1,32}$";

/// An event of an account's stream that concerns a webhook. Projections must match every variant without a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEvent {
    /// The owner or an operator created a webhook.
    Created(WebhookCreated),
    /// The owner or an operator changed a webhook.
    Changed(WebhookChanged),
    /// The owner or an operator replaced the secret of a webhook.
    SecretRotated(WebhookSecretRotated),
    /// The receiver of a webhook has accepted nothing for some time.
    Failing(WebhookFailing),
    /// The service disabled a webhook.
    Disabled(WebhookDisabled),
    /// The owner or an operator deleted a webhook.
    Deleted(WebhookDeleted),
}

/// A webhook was created, enabled: its address receives messages about later events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WebhookCreated {
    /// Account that owns the webhook.
    pub account_id: AccountId,
    /// Id of the webhook.
    pub webhook_id: WebhookId,
    /// Address that receives the messages.
    pub url: WebhookUrl,
    /// Types of the messages that the webhook wants; empty for all types but `link.clicks`.
    pub types: Vec<String>,
    /// Description for people. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = DESCRIPTION_LENGTH_MAX))]
    pub description: Option<String>,
    /// True if the first attempts of messages are made one at a time, in the order of the events.
    pub in_order: bool,
    /// True if the webhook is one of operators, and receives messages about the events of all accounts. Absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_accounts: bool,
    /// Version of the secret that signs the messages.
    pub secret: SecretVersion,
}

/// Version of a webhook's secret. The secret follows from it only with the master key, which is in no event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct SecretVersion {
    /// Id of the master key that the secret is derived from.
    #[schemars(regex(pattern = MASTER_KEY_ID_PATTERN))]
    pub master_key_id: String,
    /// Number of the secret among those of the webhook, from 1.
    #[schemars(range(min = 1))]
    pub generation: i32,
}

/// The owner or an operator changed a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WebhookChanged {
    /// Account that owns the webhook.
    pub account_id: AccountId,
    /// Id of the webhook.
    pub webhook_id: WebhookId,
    /// Changed members, at least one, each with its value before and after the change. A member that did not
    /// change is absent.
    pub changes: WebhookChanges,
}

/// Changed members of a webhook; a member that did not change is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct WebhookChanges {
    /// Change of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<WebhookUrl>")]
    pub url: Option<Change<WebhookUrl>>,
    /// Change of the wanted types; the lists have all types before and after the change, and an empty one stands for
    /// all types but `link.clicks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<Vec<String>>")]
    pub types: Option<Change<Vec<String>>>,
    /// Change of the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<String>")]
    pub description: Option<ValueChange<String>>,
    /// Change of whether messages are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<bool>")]
    pub enabled: Option<Change<bool>>,
    /// Change of whether the first attempts are made in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<bool>")]
    pub in_order: Option<Change<bool>>,
}

/// The owner or an operator replaced the secret of a webhook.
///
/// Until `overlap_until`, each message is signed with the replaced secret too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WebhookSecretRotated {
    /// Account that owns the webhook.
    pub account_id: AccountId,
    /// Id of the webhook.
    pub webhook_id: WebhookId,
    /// Version of the new secret.
    pub secret: SecretVersion,
    /// Instant from which the replaced secret no longer signs.
    #[serde(with = "timestamp")]
    #[schemars(with = "Expiry")]
    pub overlap_until: OffsetDateTime,
}

/// The receiver of a webhook has accepted nothing for an hour, or for a day, while a message waited.
///
/// The webhook itself does not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WebhookFailing {
    /// Account that owns the webhook.
    pub account_id: AccountId,
    /// Id of the webhook.
    pub webhook_id: WebhookId,
    /// Time of the first failed attempt since the last success, moved by the time in which nobody tried.
    #[serde(with = "timestamp")]
    #[schemars(with = "Expiry")]
    pub failing_since: OffsetDateTime,
    /// Number of hours that have passed since then, at least: 1 or 24.
    #[schemars(range(min = 1))]
    pub hours: i32,
}

/// The service disabled a webhook: its address receives no message until the webhook is enabled again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WebhookDisabled {
    /// Account that owns the webhook.
    pub account_id: AccountId,
    /// Id of the webhook.
    pub webhook_id: WebhookId,
    /// Reason of the service.
    pub reason: DisabledReason,
}

crate::named_enum! {
    /// Reason for which the service disables a webhook.
    #[derive(Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    pub enum DisabledReason {
        /// The receiver answered a message with 410 Gone.
        Gone = "gone",
        /// No message was accepted for five days, while at least one waited.
        Unreachable = "unreachable",
    }
}

/// The owner or an operator deleted a webhook, with its messages that were not delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WebhookDeleted {
    /// Account that owned the webhook.
    pub account_id: AccountId,
    /// Id of the webhook.
    pub webhook_id: WebhookId,
}

impl WebhookEvent {
    /// Returns the webhook that the event concerns.
    pub const fn webhook_id(&self) -> WebhookId {
        match self {
            Self::Created(event) => event.webhook_id,
            Self::Changed(event) => event.webhook_id,
            Self::SecretRotated(event) => event.webhook_id,
            Self::Failing(event) => event.webhook_id,
            Self::Disabled(event) => event.webhook_id,
            Self::Deleted(event) => event.webhook_id,
        }
    }
}
