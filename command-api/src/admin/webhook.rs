//! Webhooks of owners and of operators: creation, changes, deletion, rotation of the secret, and requests to send
//! messages (`docs/api.md#webhooks`). There are no commands for them: the two APIs are the callers.

mod change;
mod create;
mod delete;
mod replay;
mod rotate;
mod rows;
mod send;

use linkledger_core::{
    id::{AccountId, WebhookId},
    webhook::{MasterKeys, SecretVersion, Webhook, WebhookSecret, WebhookUrl},
};

use super::error::{AdminRefusal, AdminResult};

pub use self::{
    change::change,
    create::create,
    delete::delete,
    replay::{ReplayRange, ReplayStart, replay},
    rotate::rotate,
    send::{retry, test},
};

/// Overlap of a rotation that names none, in hours.
pub const OVERLAP_HOURS_DEFAULT: u16 = 24;

/// Owner of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookOwner {
    /// An account: its webhooks receive messages about its own events.
    Account(AccountId),
    /// The operators: their webhooks receive messages about the events of all accounts.
    Operators,
}

/// Webhook to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// Address that receives the messages.
    pub url: WebhookUrl,
    /// Wanted types of messages; empty for all types but `link.clicks`.
    pub types: Vec<String>,
    /// Description for people.
    pub description: Option<String>,
    /// True to send messages in the order of the events.
    pub in_order: bool,
}

impl WebhookOwner {
    /// Returns true if the webhooks receive messages about the events of all accounts.
    pub(crate) const fn owns_all_accounts(self) -> bool {
        match self {
            Self::Account(_) => false,
            Self::Operators => true,
        }
    }

    /// Returns true if the webhook belongs to the owner. An account that owns the operators' webhooks too does not see
    /// them as its own.
    fn owns(self, webhook: &Webhook) -> bool {
        match self {
            Self::Account(account_id) => webhook.account_id == account_id && !webhook.all_accounts,
            Self::Operators => webhook.all_accounts,
        }
    }
}

/// Derives a secret of the webhook.
///
/// # Errors
/// Returns an error if the file of master keys lacks the key of this version.
fn secret(
    keys: &MasterKeys,
    webhook_id: WebhookId,
    version: &SecretVersion,
) -> AdminResult<WebhookSecret> {
    let secret = keys.secret(webhook_id, version);
    let missing = || AdminRefusal::MasterKeyMissing(version.master_key_id.clone());
    Ok(secret.ok_or_else(missing)?)
}
