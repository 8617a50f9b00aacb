//! Webhooks: addresses that receive messages about events of an account, or of all accounts (`docs/webhooks.md`).
//!
//! Nothing here sends anything: the module decides what a webhook is, which messages it wants, how a message is written
//! and signed, which addresses may receive it, and when it is sent again.

mod event;
mod message_type;
mod retry;
mod secret;
mod state;
#[cfg(test)]
mod tests;
mod url;

pub use self::url::{URL_LENGTH_MAX, UrlRules, WebhookUrl, is_public};
pub use event::{
    DisabledReason, SecretVersion, WebhookChanged, WebhookChanges, WebhookCreated, WebhookDeleted,
    WebhookDisabled, WebhookEvent, WebhookFailing, WebhookSecretRotated,
};
pub use message_type::{Audience, MessageType, OrderedItem, message_body, ordered_body};
pub use retry::{AttemptOutcome, Illness, failing_since, is_unreachable, retry_delay};
pub use secret::{MasterKeys, WebhookSecret};
pub use state::{PreviousSecret, Webhook, WebhookChangeRequest};

/// Maximal number of webhooks of an account.
pub const WEBHOOKS_OF_ACCOUNT_MAX: usize = 10;
/// Maximal length of the description of a webhook, in characters.
pub const DESCRIPTION_LENGTH_MAX: u32 = 200;
/// Longest time for which a replaced secret still signs, in hours: a week.
pub const OVERLAP_HOURS_MAX: u16 = 168;
/// Maximal number of waiting deliveries of a webhook: with more, no test is taken, and a refusal counts as an illness.
pub const DELIVERIES_WAITING_MAX: i64 = 1_000;

crate::named_enum! {
    /// State of a delivery, by its name in answers and in the database.
    pub enum DeliveryState {
        /// A further attempt is due at a known time.
        Waiting = "waiting",
        /// The last attempt failed; only a request sends the message again.
        Failed = "failed",
        /// The receiver accepted the message.
        Delivered = "delivered",
    }
}
