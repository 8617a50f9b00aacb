//! Creates a webhook, once per idempotency key.

use linkledger_core::{
    clock::new_uuid,
    envelope::{NewEvent, RecordedEvent},
    event::Event,
    id::WebhookId,
    webhook::{
        MasterKeys, SecretVersion, WEBHOOKS_OF_ACCOUNT_MAX, Webhook, WebhookCreated, WebhookEvent,
    },
};
use linkledger_event_store::webhooks::{cursors, rows as stored};
use linkledger_http::webhook_views::WebhookView;
use serde_json::json;

use super::{
    NewWebhook, WebhookOwner,
    rows::{find_or_create_account, next_event},
    secret,
};
use crate::admin::{
    author::{EffectKind, Request},
    error::{AdminError, AdminRefusal, AdminResult, Done},
    operator::{self, Decision},
};

/// Creates a webhook, which receives messages about events from now on. A replayed answer has the secret too, since it
/// is derived.
///
/// # Errors
/// Returns an error if the owner has too many webhooks, if the idempotency key was used for another webhook, or if the
/// database fails.
pub async fn create(
    request: &Request<'_>,
    owner: WebhookOwner,
    keys: &MasterKeys,
    new: &NewWebhook,
) -> AdminResult<Done<WebhookView>> {
    let body = [
        ("url", json!(new.url)),
        ("types", json!(new.types)),
        ("description", json!(new.description)),
        ("in_order", json!(new.in_order)),
        ("all_accounts", json!(owner.owns_all_accounts())),
    ];
    let mark = request.mark(EffectKind::Webhook, body);
    let account_id = find_or_create_account(request, owner).await?;
    let mut decision = operator::begin(request, account_id).await?;
    let kind = EffectKind::Webhook;
    if let Some(effect) = decision.find_effect(kind, mark.as_ref()).await? {
        return replay(keys, &effect);
    }
    check_limit(&mut decision, owner).await?;
    let created = created(&decision, owner, keys, new);
    let webhook = Webhook::new(&created, decision.now);
    let value = new_view(keys, &webhook)?;
    insert(&mut decision, &webhook).await?;
    let event = NewEvent {
        idempotency: mark,
        ..next_event(&mut decision, WebhookEvent::Created(created))
    };
    Ok(Done {
        value,
        replayed: false,
        position: Some(decision.append(&[event]).await?),
    })
}

fn created(
    decision: &Decision<'_>,
    owner: WebhookOwner,
    keys: &MasterKeys,
    new: &NewWebhook,
) -> WebhookCreated {
    WebhookCreated {
        account_id: decision.account_id,
        webhook_id: WebhookId::from_uuid(new_uuid(decision.now)),
        url: new.url.clone(),
        types: new.types.clone(),
        description: new.description.clone(),
        in_order: new.in_order,
        all_accounts: owner.owns_all_accounts(),
        secret: SecretVersion {
            master_key_id: keys.newest_id().to_owned(),
            generation: 1,
        },
    }
}

/// Stores the webhook, at the end of the log.
async fn insert(decision: &mut Decision<'_>, webhook: &Webhook) -> AdminResult<()> {
    let (account_id, of_all) = (webhook.account_id, webhook.all_accounts);
    let start = cursors::end_of_log_in_tx(&mut decision.tx, account_id, of_all).await;
    let start = start.map_err(AdminError::of_statement("read the end of the log"))?;
    let inserted = stored::insert_in_tx(&mut decision.tx, webhook, &start).await;
    inserted.map_err(AdminError::of_statement("store the webhook"))
}

async fn check_limit(decision: &mut Decision<'_>, owner: WebhookOwner) -> AdminResult<()> {
    let account_id = decision.account_id;
    let of_all = owner.owns_all_accounts();
    let count = stored::count_in_tx(&mut decision.tx, account_id, of_all).await;
    let count = count.map_err(AdminError::of_statement("count the webhooks"))?;
    if usize::try_from(count).is_ok_and(|count| count < WEBHOOKS_OF_ACCOUNT_MAX) {
        return Ok(());
    }
    Err(AdminRefusal::WebhookLimitReached.into())
}

/// Returns the answer to the request that has created the webhook.
fn replay(keys: &MasterKeys, event: &RecordedEvent) -> AdminResult<Done<WebhookView>> {
    let decoded = event.decode().map_err(AdminError::unreadable)?;
    let Event::Webhook(WebhookEvent::Created(created)) = decoded else {
        return Err(AdminError::unreadable(&event.event_type));
    };
    let webhook = Webhook::new(&created, event.recorded_at);
    Ok(Done {
        value: new_view(keys, &webhook)?,
        replayed: true,
        position: Some(event.position),
    })
}

fn new_view(keys: &MasterKeys, webhook: &Webhook) -> AdminResult<WebhookView> {
    let secret = secret(keys, webhook.webhook_id, &webhook.secret)?;
    Ok(WebhookView::of_new(webhook, &secret))
}
