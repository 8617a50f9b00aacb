//! Messages to webhooks: their types, and their bodies, which are signed and sent byte for byte.

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::timestamp;

crate::named_enum! {
    /// Type of a message. A name is never given another meaning.
    pub enum MessageType {
        /// A link was created; the message has the charge too.
        LinkCreated = "link.created",
        /// The destination or the details of a link changed.
        LinkUpdated = "link.updated",
        /// A link was disabled.
        LinkDisabled = "link.disabled",
        /// A link was enabled again.
        LinkEnabled = "link.enabled",
        /// A link was deleted.
        LinkDeleted = "link.deleted",
        /// Credits were added.
        CreditsGranted = "credits.granted",
        /// A balance was corrected.
        CreditsAdjusted = "credits.adjusted",
        /// A charge was given back.
        CreditsRefunded = "credits.refunded",
        /// A grant was taken back.
        CreditsRevoked = "credits.revoked",
        /// A charge crossed a threshold of the balance downwards.
        CreditsLow = "credits.low",
        /// An account was created; for operators.
        AccountCreated = "account.created",
        /// The name, the external id or the thresholds of an account changed; for operators.
        AccountChanged = "account.changed",
        /// An account was suspended.
        AccountSuspended = "account.suspended",
        /// A suspended account was resumed.
        AccountResumed = "account.resumed",
        /// The service disabled a webhook; for operators.
        WebhookDisabled = "webhook.disabled",
        /// A test that was requested.
        Test = "webhook.test",
    }
}

impl MessageType {
    /// Returns true if only webhooks of operators receive messages of the type.
    pub const fn is_for_operators(self) -> bool {
        match self {
            Self::AccountCreated | Self::AccountChanged | Self::WebhookDisabled => true,
            Self::LinkCreated
            | Self::LinkUpdated
            | Self::LinkDisabled
            | Self::LinkEnabled
            | Self::LinkDeleted
            | Self::CreditsGranted
            | Self::CreditsAdjusted
            | Self::CreditsRefunded
            | Self::CreditsRevoked
            | Self::CreditsLow
            | Self::AccountSuspended
            | Self::AccountResumed
            | Self::Test => false,
        }
    }

    /// Returns the types that a webhook can name: all but the test.
    pub fn subscribable() -> impl Iterator<Item = Self> {
        let types = Self::ALL.into_iter();
        types.filter(|message_type| *message_type != Self::Test)
    }
}

/// Readers of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The owner of the account: without the words that only operators see.
    Owner,
    /// Operators.
    Operator,
}

/// Body of a message. The order of the members is that of Standard Webhooks.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    message_type: &'static str,
    #[serde(with = "timestamp")]
    timestamp: OffsetDateTime,
    data: &'a Value,
}

/// Returns the body of a message about something that happened at this time. The same arguments always result in the
/// same bytes: a message that is sent again has the same body.
pub fn message_body(message_type: MessageType, at: OffsetDateTime, data: &Value) -> String {
    let body = Body {
        message_type: message_type.name(),
        timestamp: at,
        data,
    };
    serde_json::to_string(&body).expect("the keys of JSON values are texts")
}
