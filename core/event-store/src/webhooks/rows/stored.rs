//! A stored webhook, and the row that it is read from.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::unreadable;
use linkledger_core::{
    id::{AccountId, WebhookId},
    webhook::{DisabledReason, PreviousSecret, SecretVersion, Webhook, WebhookUrl},
};

/// A webhook with the health of its receiver, and the numbers of its deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWebhook {
    /// The webhook, as its events describe it.
    pub webhook: Webhook,
    /// Health of the receiver.
    pub health: WebhookHealth,
    /// Number of waiting deliveries, counted up to 1,000.
    pub waiting: i64,
    /// Number of failed deliveries, counted up to 1,000.
    pub failed: i64,
    /// True while past events are replayed.
    pub replays: bool,
}

/// Health of a webhook's receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookHealth {
    /// Beginning of the illness; `None` if the receiver is healthy.
    pub ill_since: Option<OffsetDateTime>,
    /// Number of failed probes of the illness.
    pub probes: i32,
    /// Time of the next probe of an ill receiver.
    pub next_probe_at: Option<OffsetDateTime>,
    /// Beginning of the time without a success, in which attempts were made.
    pub failing_since: Option<OffsetDateTime>,
    /// Hours of the last notice to operators about this time; 0 before the first.
    pub notified_hours: i16,
    /// Set while an operator must act before messages can be sent.
    pub blocked_since: Option<OffsetDateTime>,
    /// Time of the last accepted message.
    pub last_success_at: Option<OffsetDateTime>,
    /// Time of the last attempt.
    pub last_attempt_at: Option<OffsetDateTime>,
    /// Status of the answer to the last attempt, if there was one.
    pub last_status: Option<i16>,
    /// Error of the last attempt, if it failed; or what an operator must act for.
    pub last_error: Option<String>,
}

/// Row of a webhook with the health of its receiver.
#[expect(clippy::struct_excessive_bools, reason = "one member for each column")]
pub(super) struct StoredRow {
    pub(super) webhook_id: Uuid,
    pub(super) account_id: Uuid,
    pub(super) url: String,
    pub(super) types: Vec<String>,
    pub(super) description: Option<String>,
    pub(super) enabled: bool,
    pub(super) disabled_reason: Option<String>,
    pub(super) in_order: bool,
    pub(super) all_accounts: bool,
    pub(super) secret_key_id: String,
    pub(super) secret_generation: i32,
    pub(super) previous_key_id: Option<String>,
    pub(super) previous_generation: Option<i32>,
    pub(super) previous_valid_until: Option<OffsetDateTime>,
    pub(super) created_at: OffsetDateTime,
    pub(super) updated_at: OffsetDateTime,
    pub(super) ill_since: Option<OffsetDateTime>,
    pub(super) probes: i32,
    pub(super) next_probe_at: Option<OffsetDateTime>,
    pub(super) failing_since: Option<OffsetDateTime>,
    pub(super) notified_hours: i16,
    pub(super) blocked_since: Option<OffsetDateTime>,
    pub(super) last_success_at: Option<OffsetDateTime>,
    pub(super) last_attempt_at: Option<OffsetDateTime>,
    pub(super) last_status: Option<i16>,
    pub(super) last_error: Option<String>,
    pub(super) waiting: i64,
    pub(super) failed: i64,
    pub(super) replays: bool,
}

impl StoredRow {
    pub(super) fn into_stored(self) -> sqlx::Result<StoredWebhook> {
        let disabled_reason = self.disabled_reason()?;
        let previous_secret = self.previous_secret();
        Ok(StoredWebhook {
            webhook: Webhook {
                webhook_id: WebhookId::from_uuid(self.webhook_id),
                account_id: AccountId::from_uuid(self.account_id),
                url: WebhookUrl::stored(self.url),
                types: self.types,
                description: self.description,
                enabled: self.enabled,
                disabled_reason,
                in_order: self.in_order,
                all_accounts: self.all_accounts,
                secret: SecretVersion {
                    master_key_id: self.secret_key_id,
                    generation: self.secret_generation,
                },
                previous_secret,
                created_at: self.created_at,
                updated_at: self.updated_at,
            },
            health: WebhookHealth {
                ill_since: self.ill_since,
                probes: self.probes,
                next_probe_at: self.next_probe_at,
                failing_since: self.failing_since,
                notified_hours: self.notified_hours,
                blocked_since: self.blocked_since,
                last_success_at: self.last_success_at,
                last_attempt_at: self.last_attempt_at,
                last_status: self.last_status,
                last_error: self.last_error,
            },
            waiting: self.waiting,
            failed: self.failed,
            replays: self.replays,
        })
    }

    fn disabled_reason(&self) -> sqlx::Result<Option<DisabledReason>> {
        let Some(name) = &self.disabled_reason else {
            return Ok(None);
        };
        // A reason of a later release: the next change would lose it.
        let reason = DisabledReason::of_name(name);
        let unknown = || unreadable(format!("no reason to disable a webhook is called `{name}`"));
        reason.map(Some).ok_or_else(unknown)
    }

    fn previous_secret(&self) -> Option<PreviousSecret> {
        Some(PreviousSecret {
            version: SecretVersion {
                master_key_id: self.previous_key_id.clone()?,
                generation: self.previous_generation?,
            },
            valid_until: self.previous_valid_until?,
        })
    }
}
