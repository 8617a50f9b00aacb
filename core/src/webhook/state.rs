//! A webhook, derived from its events, and the decisions about it.

use time::OffsetDateTime;

use super::{
    DisabledReason, MessageType, SecretVersion, WebhookChanged, WebhookChanges, WebhookCreated,
    WebhookDisabled, WebhookEvent, WebhookSecretRotated, WebhookUrl,
};
use crate::{
    change::{Change, ValueChange, ValueUpdate},
    id::{AccountId, WebhookId},
};

/// A webhook as its events describe it: without its place in the log and its deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Id of the webhook.
    pub webhook_id: WebhookId,
    /// Account that owns the webhook.
    pub account_id: AccountId,
    /// Address that receives the messages.
    pub url: WebhookUrl,
    /// Names of the wanted types of messages, those of later releases included; empty for all types but `link.clicks`.
    pub types: Vec<String>,
    /// Description for people.
    pub description: Option<String>,
    /// True if messages are sent.
    pub enabled: bool,
    /// Reason of the service, if it disabled the webhook.
    pub disabled_reason: Option<DisabledReason>,
    /// True if the first attempts of messages are made one at a time, in the order of the events.
    pub in_order: bool,
    /// True if the webhook is one of operators, and receives messages about the events of all accounts.
    pub all_accounts: bool,
    /// Version of the secret that signs the messages.
    pub secret: SecretVersion,
    /// Secret before the last rotation.
    pub previous_secret: Option<PreviousSecret>,
    /// Time of the creation.
    pub created_at: OffsetDateTime,
    /// Time of the last event.
    pub updated_at: OffsetDateTime,
}

/// Replaced secret of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    /// Version of the secret.
    pub version: SecretVersion,
    /// Instant from which the secret no longer signs.
    pub valid_until: OffsetDateTime,
}

/// Requested change of a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookChangeRequest {
    /// New address; `None` keeps the address.
    pub url: Option<WebhookUrl>,
    /// New types, which replace all; `None` keeps them.
    pub types: Option<Vec<String>>,
    /// New description.
    pub description: ValueUpdate<String>,
    /// True to enable the webhook, false to disable it; `None` keeps it as it is.
    pub enabled: Option<bool>,
    /// New order of first attempts; `None` keeps the order.
    pub in_order: Option<bool>,
}

impl Webhook {
    /// Returns a webhook that was created at the given time.
    pub fn new(created: &WebhookCreated, at: OffsetDateTime) -> Self {
        Self {
            webhook_id: created.webhook_id,
            account_id: created.account_id,
            url: created.url.clone(),
            types: created.types.clone(),
            description: created.description.clone(),
            enabled: true,
            disabled_reason: None,
            in_order: created.in_order,
            all_accounts: created.all_accounts,
            secret: created.secret.clone(),
            previous_secret: None,
            created_at: at,
            updated_at: at,
        }
    }

    /// Returns true if the webhook wants messages of the type. Messages for operators go to their webhooks only, and a
    /// test is sent by request only.
    pub fn wants(&self, message_type: MessageType) -> bool {
        let is_named = |name: &String| name == message_type.name();
        let is_of_all = self.types.is_empty() && !message_type.must_be_named();
        message_type != MessageType::Test
            && (self.all_accounts || !message_type.is_for_operators())
            && (is_of_all || self.types.iter().any(is_named))
    }

    /// Decides to change the webhook. Returns `None` if nothing changes; another order of the same types is no change.
    pub fn decide_change(&self, wanted: &WebhookChangeRequest) -> Option<WebhookChanged> {
        let url = wanted.url.as_ref();
        let types = wanted.types.as_ref();
        let types = types.filter(|types| !is_same_set(types, &self.types));
        let description = wanted.description.clone();
        let description = description.apply_to(self.description.clone());
        let between =
            |before, after: Option<bool>| after.and_then(|after| Change::between(&before, &after));
        let changes = WebhookChanges {
            url: url.and_then(|url| Change::between(&self.url, url)),
            types: types.and_then(|types| Change::between(&self.types, types)),
            description: ValueChange::between(self.description.as_ref(), description.as_ref()),
            enabled: between(self.enabled, wanted.enabled),
            in_order: between(self.in_order, wanted.in_order),
        };
        (changes != WebhookChanges::default()).then_some(WebhookChanged {
            account_id: self.account_id,
            webhook_id: self.webhook_id,
            changes,
        })
    }

    /// Decides to replace the secret by one of this master key. Until `overlap_until`, the replaced secret signs too.
    pub fn decide_rotate(
        &self,
        master_key_id: &str,
        overlap_until: OffsetDateTime,
    ) -> WebhookSecretRotated {
        WebhookSecretRotated {
            account_id: self.account_id,
            webhook_id: self.webhook_id,
            secret: SecretVersion {
                master_key_id: master_key_id.to_owned(),
                generation: self.secret.generation.saturating_add(1),
            },
            overlap_until,
        }
    }

    /// Decides that the service disables the webhook. Returns `None` if it is disabled already.
    pub fn decide_disable(&self, reason: DisabledReason) -> Option<WebhookDisabled> {
        self.enabled.then_some(WebhookDisabled {
            account_id: self.account_id,
            webhook_id: self.webhook_id,
            reason,
        })
    }

    /// Returns the webhook after one more of its events. Never fails: an event is a fact.
    #[must_use]
    pub fn apply(mut self, event: &WebhookEvent, at: OffsetDateTime) -> Self {
        match event {
            // Unreachable: a webhook is created once. A second time would reset the webhook.
            WebhookEvent::Created(created) => return Self::new(created, self.created_at),
            WebhookEvent::Changed(changed) => self.change(&changed.changes),
            WebhookEvent::SecretRotated(rotated) => {
                let version = std::mem::replace(&mut self.secret, rotated.secret.clone());
                self.previous_secret = Some(PreviousSecret {
                    version,
                    valid_until: rotated.overlap_until,
                });
            }
            WebhookEvent::Disabled(disabled) => {
                self.enabled = false;
                self.disabled_reason = Some(disabled.reason);
            }
            // A notice is about the receiver, and the last event leaves no webhook.
            WebhookEvent::Failing(_) | WebhookEvent::Deleted(_) => return self,
        }
        self.updated_at = at;
        self
    }

    fn change(&mut self, changes: &WebhookChanges) {
        if let Some(url) = &changes.url {
            self.url.clone_from(&url.to);
        }
        if let Some(types) = &changes.types {
            self.types.clone_from(&types.to);
        }
        if let Some(description) = &changes.description {
            self.description.clone_from(&description.to);
        }
        if let Some(enabled) = &changes.enabled {
            self.enabled = enabled.to;
            self.disabled_reason = None;
        }
        if let Some(in_order) = &changes.in_order {
            self.in_order = in_order.to;
        }
    }
}

fn is_same_set(some: &[String], others: &[String]) -> bool {
    let are_in = |some: &[String], others: &[String]| some.iter().all(|it| others.contains(it));
    are_in(some, others) && are_in(others, some)
}
