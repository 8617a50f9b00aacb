//! Messages to webhooks: their types, and the bodies of requests, which are signed and sent byte for byte.

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::{id::EventId, timestamp};

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
        /// A link expired.
        LinkExpired = "link.expired",
        /// A human followed a link for the first time.
        LinkFirstClick = "link.first_click",
        /// Clicks of a minute were counted. Only a webhook that names the type receives it.
        LinkClicks = "link.clicks",
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
        /// The receiver of a webhook has accepted nothing for some time; for operators.
        WebhookFailing = "webhook.failing",
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
            Self::AccountCreated
            | Self::AccountChanged
            | Self::WebhookFailing
            | Self::WebhookDisabled => true,
            Self::LinkCreated
            | Self::LinkUpdated
            | Self::LinkDisabled
            | Self::LinkEnabled
            | Self::LinkDeleted
            | Self::LinkExpired
            | Self::LinkFirstClick
            | Self::LinkClicks
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

    /// Returns true if only webhooks that name the type receive its messages: there is one for each minute with clicks.
    pub const fn must_be_named(self) -> bool {
        matches!(self, Self::LinkClicks)
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

/// A message in a request that has several, in the order of the events.
#[derive(Debug, Clone, Copy)]
pub struct OrderedItem<'a> {
    /// Id of the event.
    pub event_id: EventId,
    /// Time of the event.
    pub recorded_at: OffsetDateTime,
    /// Body of the message as [`message_body`] returns it.
    pub body: &'a str,
}

impl OrderedItem<'_> {
    /// Returns the body with the id of the event as its first member.
    fn to_json(self) -> String {
        let members = self.body.strip_prefix('{').expect("a body is an object");
        format!(r#"{{"id":"{}",{members}"#, self.event_id)
    }
}

/// Returns the body of a request with these messages, whose time is that of the last one. The same arguments always
/// result in the same bytes.
///
/// # Panics
/// Panics without a message.
pub fn ordered_body(items: &[OrderedItem<'_>]) -> String {
    let last = items.last().expect("a request has a message");
    let at = timestamp::format(last.recorded_at);
    let items: Vec<String> = items.iter().map(|item| item.to_json()).collect();
    let items = items.join(",");
    format!(r#"{{"type":"events","timestamp":"{at}","data":{{"items":[{items}]}}}}"#)
}
