//! Webhooks of a shard's accounts during a check: as the events tell them, compared with their table at the head at
//! which the table was read. They are kept whole: an account has few.

use std::collections::HashMap;

use linkledger_core::{
    id::WebhookId,
    shard::Position,
    webhook::{OVERLAP_HOURS_MAX, Webhook, WebhookChanges, WebhookEvent, WebhookSecretRotated},
};
use linkledger_event_store::log::stored::StoredEvent;
use time::{Duration, OffsetDateTime};

use super::findings::Findings;

/// Webhooks of the checked events, and the rows of their table.
#[derive(Debug)]
pub(super) struct WebhookAudit {
    /// Webhook after its last event, `None` if it is deleted, and the position of that event.
    by_id: HashMap<WebhookId, (Option<Webhook>, Position)>,
    /// Rows of the table; `None` once they are compared.
    rows: Option<HashMap<WebhookId, Webhook>>,
    /// Head at which the rows were read.
    read_at: Position,
    /// True if an event is missing or unreadable: a webhook without a creation may be of that event.
    is_incomplete: bool,
}

/// Rows of the webhooks of a shard's accounts, and the head at which they were read.
#[derive(Debug, Default)]
pub(in super::super) struct WebhookRows {
    rows: HashMap<WebhookId, Webhook>,
    pub(in super::super) head: Position,
}

impl WebhookRows {
    pub(in super::super) fn insert(&mut self, webhook: Webhook) {
        self.rows.insert(webhook.webhook_id, webhook);
    }
}

impl WebhookAudit {
    pub(super) fn new(read: WebhookRows) -> Self {
        Self {
            by_id: HashMap::new(),
            rows: Some(read.rows),
            read_at: read.head,
            is_incomplete: false,
        }
    }

    /// Records that an event is missing or unreadable.
    pub(super) fn note_gap(&mut self) {
        self.is_incomplete = true;
    }

    /// Compares the rows, if they were read before the event at this position.
    pub(super) fn compare_before(&mut self, position: Position, findings: &mut Findings) {
        if position <= self.read_at {
            return;
        }
        let Some(mut rows) = self.rows.take() else {
            return;
        };
        for (webhook_id, (webhook, position)) in &self.by_id {
            let what = match (webhook, rows.remove(webhook_id)) {
                (None, None) => None,
                (None, Some(_)) => Some("it is deleted, but has a row in webhooks".to_owned()),
                (Some(_), None) => Some("it has no row in webhooks".to_owned()),
                (Some(webhook), Some(row)) => difference(webhook, &row).map(|member| {
                    format!("its row in webhooks is not what its events come to: {member}")
                }),
            };
            if let Some(what) = what {
                findings.add(Some(*position), format!("{webhook_id}: {what}"));
            }
        }
        let unexplained = rows.into_keys().filter(|_| !self.is_incomplete);
        for webhook_id in unexplained {
            let uuid = webhook_id.uuid();
            let row = format!("{webhook_id} has a row in webhooks (webhook_id {uuid})");
            findings.add(None, format!("{row} that no event explains"));
        }
    }

    /// Returns the number of webhooks, without the deleted ones.
    pub(super) fn count(&self) -> usize {
        let kept = self.by_id.values().filter(|(webhook, _)| webhook.is_some());
        kept.count()
    }

    /// Applies an event of a webhook.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: &WebhookEvent,
        findings: &mut Findings,
    ) {
        let webhook_id = event.webhook_id();
        for what in self.faults_of(stored, event) {
            findings.add(Some(stored.position), format!("{webhook_id}: {what}"));
        }
    }

    fn faults_of(&mut self, stored: &StoredEvent<'_>, event: &WebhookEvent) -> Vec<String> {
        let (webhook_id, position) = (event.webhook_id(), stored.position);
        if let WebhookEvent::Created(created) = event {
            let webhook = Webhook::new(created, stored.recorded_at);
            let before = self.by_id.insert(webhook_id, (Some(webhook), position));
            let again = before.map(|_| "it was created before".to_owned());
            let is_first = created.secret.generation == 1;
            let other = (!is_first).then(|| "its secret is not of the first generation".to_owned());
            return again.into_iter().chain(other).collect();
        }
        let before = self.by_id.remove(&webhook_id);
        let before = match before {
            Some((Some(webhook), _)) => webhook,
            Some((None, last)) => {
                self.by_id.insert(webhook_id, (None, last));
                return vec!["it was deleted before".to_owned()];
            }
            None if self.is_incomplete => return Vec::new(),
            None => return vec!["it was never created".to_owned()],
        };
        let mut faults = Vec::new();
        if before.account_id != stored.account_id {
            faults.push(format!("it is a webhook of {}", before.account_id));
        }
        faults.extend(fault_after(&before, event, stored.recorded_at));
        let is_deleted = matches!(event, WebhookEvent::Deleted(_));
        let after = (!is_deleted).then(|| before.apply(event, stored.recorded_at));
        self.by_id.insert(webhook_id, (after, position));
        faults
    }
}

/// Returns a finding if the event does not follow from the webhook before it.
fn fault_after(before: &Webhook, event: &WebhookEvent, at: OffsetDateTime) -> Option<String> {
    match event {
        WebhookEvent::Changed(changed) if changed.changes == WebhookChanges::default() => {
            Some("it changes nothing".to_owned())
        }
        WebhookEvent::Changed(changed) => {
            let member = wrong_member(before, &changed.changes)?;
            Some(format!(
                "the {member} that it replaces is not that of the webhook"
            ))
        }
        WebhookEvent::SecretRotated(rotated) => {
            fault_of_rotation(before, rotated, at).map(str::to_owned)
        }
        WebhookEvent::Failing(_) => (!before.enabled).then(|| "it is disabled".to_owned()),
        WebhookEvent::Disabled(_) => (!before.enabled).then(|| "it was disabled before".to_owned()),
        WebhookEvent::Created(_) | WebhookEvent::Deleted(_) => None,
    }
}

fn fault_of_rotation(
    before: &Webhook,
    rotated: &WebhookSecretRotated,
    at: OffsetDateTime,
) -> Option<&'static str> {
    if rotated.secret.generation != before.secret.generation.saturating_add(1) {
        return Some("its secret is not of the next generation");
    }
    let longest = Duration::hours(OVERLAP_HOURS_MAX.into());
    (rotated.overlap_until - at > longest).then_some("its replaced secret signs for too long")
}

/// Returns the first member that had another value than the changes replace.
fn wrong_member(before: &Webhook, changes: &WebhookChanges) -> Option<&'static str> {
    let (url, types) = (changes.url.as_ref(), changes.types.as_ref());
    let description = changes.description.as_ref();
    let (enabled, in_order) = (changes.enabled.as_ref(), changes.in_order.as_ref());
    first_different(&[
        (url.is_none_or(|it| it.from == before.url), "url"),
        (types.is_none_or(|it| it.from == before.types), "types"),
        (
            description.is_none_or(|it| it.from == before.description),
            "description",
        ),
        (enabled.is_none_or(|it| it.from == before.enabled), "state"),
        (
            in_order.is_none_or(|it| it.from == before.in_order),
            "order",
        ),
    ])
}

/// Returns the first member that differs.
fn difference(webhook: &Webhook, row: &Webhook) -> Option<&'static str> {
    first_different(&[
        (webhook.account_id == row.account_id, "account"),
        (webhook.url == row.url, "url"),
        (webhook.types == row.types, "types"),
        (webhook.description == row.description, "description"),
        (webhook.enabled == row.enabled, "state"),
        (
            webhook.disabled_reason == row.disabled_reason,
            "reason of its state",
        ),
        (webhook.in_order == row.in_order, "order"),
        (webhook.all_accounts == row.all_accounts, "accounts"),
        (webhook.secret == row.secret, "secret"),
        (
            webhook.previous_secret == row.previous_secret,
            "secret before",
        ),
        (webhook.created_at == row.created_at, "time of creation"),
        (webhook.updated_at == row.updated_at, "time of change"),
    ])
}

fn first_different(members: &[(bool, &'static str)]) -> Option<&'static str> {
    let different = members.iter().find(|(is_same, _)| !is_same);
    different.map(|(_, member)| *member)
}
