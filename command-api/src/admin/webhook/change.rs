//! Changes a webhook.

use linkledger_core::{
    id::WebhookId,
    webhook::{WebhookChangeRequest, WebhookEvent},
};
use linkledger_event_store::webhooks::rows::{StoredWebhook, WebhookHealth};
use linkledger_http::webhook_views::WebhookView;

use super::{
    WebhookOwner,
    rows::{find, get, next_event, update},
};
use crate::admin::{
    author::Request,
    error::{AdminResult, Done},
    operator,
};

/// Changes a webhook. Messages about later events follow the change; an enabled webhook goes on where it has stopped.
///
/// # Errors
/// Returns an error if the owner has no such webhook, or the database fails.
pub async fn change(
    request: &Request<'_>,
    owner: WebhookOwner,
    webhook_id: WebhookId,
    wanted: &WebhookChangeRequest,
) -> AdminResult<Done<WebhookView>> {
    let stored = find(request, owner, webhook_id).await?;
    let mut decision = operator::begin(request, stored.webhook.account_id).await?;
    let webhook = get(&mut decision, owner, webhook_id).await?;
    let before = (webhook.enabled, webhook.url.clone());
    let Some(changed) = webhook.decide_change(wanted) else {
        return Ok(Done::unchanged(StoredWebhook { webhook, ..stored }.into()));
    };
    let event = WebhookEvent::Changed(changed);
    let webhook = webhook.apply(&event, decision.now);
    update(&mut decision, &webhook).await?;
    let (was_enabled, url) = before;
    let health = if (webhook.enabled && !was_enabled) || webhook.url != url {
        recovered(stored.health)
    } else {
        stored.health
    };
    let value = StoredWebhook {
        webhook,
        health,
        ..stored
    };
    let event = next_event(&mut decision, event);
    Ok(Done {
        value: value.into(),
        replayed: false,
        position: Some(decision.append(&[event]).await?),
    })
}

/// Returns the health of a webhook that was enabled again, or has another address: the next message is sent at once.
fn recovered(health: WebhookHealth) -> WebhookHealth {
    WebhookHealth {
        ill_since: None,
        probes: 0,
        next_probe_at: None,
        failing_since: None,
        ..health
    }
}
