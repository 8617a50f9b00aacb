//! Replaces the secret of a webhook, once per idempotency key.

use linkledger_core::{
    envelope::{NewEvent, RecordedEvent},
    event::Event,
    id::WebhookId,
    webhook::{MasterKeys, WebhookEvent, WebhookSecretRotated},
};
use linkledger_http::webhook_views::RotatedSecretView;
use serde_json::json;
use time::Duration;

use super::{
    WebhookOwner,
    rows::{find_account, get, next_event, update},
    secret,
};
use crate::admin::{
    author::{EffectKind, Request},
    error::{AdminError, AdminRefusal, AdminResult, Done},
    operator,
};

/// Replaces the secret. For `overlap_hours`, messages are signed with both secrets, unless the master key of the
/// replaced one was removed. A replayed answer has the secret too, since it is derived.
///
/// # Errors
/// Returns an error if the owner has no such webhook, if the idempotency key was used for another rotation, or if the
/// database fails.
pub async fn rotate(
    request: &Request<'_>,
    owner: WebhookOwner,
    keys: &MasterKeys,
    (webhook_id, overlap_hours): (WebhookId, u16),
) -> AdminResult<Done<RotatedSecretView>> {
    let body = [
        ("webhook", json!(webhook_id)),
        ("overlap_hours", json!(overlap_hours)),
        ("all_accounts", json!(owner.owns_all_accounts())),
    ];
    let mark = request.mark(EffectKind::RotateSecret, body);
    let account_id = find_account(request, owner).await?;
    let account_id = account_id.ok_or(AdminRefusal::WebhookNotFound(webhook_id))?;
    let mut decision = operator::begin(request, account_id).await?;
    let kind = EffectKind::RotateSecret;
    if let Some(effect) = decision.find_effect(kind, mark.as_ref()).await? {
        return replay(keys, &effect);
    }
    let webhook = get(&mut decision, owner, webhook_id).await?;
    let signs_still = keys.secret(webhook_id, &webhook.secret).is_some();
    let overlap_hours = if signs_still { overlap_hours } else { 0 };
    let overlap_until = decision.now + Duration::hours(overlap_hours.into());
    let rotated = webhook.decide_rotate(keys.newest_id(), overlap_until);
    let value = view(keys, &rotated)?;
    let event = WebhookEvent::SecretRotated(rotated);
    let rotated = webhook.apply(&event, decision.now);
    update(&mut decision, &rotated).await?;
    let event = NewEvent {
        idempotency: mark,
        ..next_event(&mut decision, event)
    };
    Ok(Done {
        value,
        replayed: false,
        position: Some(decision.append(&[event]).await?),
    })
}

/// Returns the answer to the request that has rotated the secret.
fn replay(keys: &MasterKeys, event: &RecordedEvent) -> AdminResult<Done<RotatedSecretView>> {
    let decoded = event.decode().map_err(AdminError::unreadable)?;
    let Event::Webhook(WebhookEvent::SecretRotated(rotated)) = decoded else {
        return Err(AdminError::unreadable(&event.event_type));
    };
    Ok(Done {
        value: view(keys, &rotated)?,
        replayed: true,
        position: Some(event.position),
    })
}

fn view(keys: &MasterKeys, rotated: &WebhookSecretRotated) -> AdminResult<RotatedSecretView> {
    let secret = secret(keys, rotated.webhook_id, &rotated.secret)?;
    Ok(RotatedSecretView {
        id: rotated.webhook_id,
        secret: (&secret).into(),
        previous_secret_valid_until: rotated.overlap_until,
    })
}
