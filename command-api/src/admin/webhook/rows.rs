//! Rows of webhooks, read and written in the transactions of their events.

use linkledger_core::{
    account::{OPERATORS_EXTERNAL_ID, OPERATORS_NAME},
    envelope::NewEvent,
    event::Event,
    id::{AccountId, WebhookId},
    webhook::{Webhook, WebhookEvent},
};
use linkledger_event_store::{
    accounts,
    webhooks::rows::{self, StoredWebhook},
};

use super::WebhookOwner;
use crate::admin::{
    account,
    author::Request,
    error::{AdminError, AdminRefusal, AdminResult},
    operator::Decision,
};

/// Returns the account that owns the webhooks; of operators, `None` before their first webhook.
pub(super) async fn find_account(
    request: &Request<'_>,
    owner: WebhookOwner,
) -> AdminResult<Option<AccountId>> {
    match owner {
        WebhookOwner::Account(account_id) => Ok(Some(account_id)),
        WebhookOwner::Operators => {
            let found = accounts::find_by_external_id(request.pool, OPERATORS_EXTERNAL_ID).await;
            found.map_err(AdminError::of_statement("look up the account of operators"))
        }
    }
}

/// Returns the account that owns the webhooks, which is created for the first webhook of operators.
pub(super) async fn find_or_create_account(
    request: &Request<'_>,
    owner: WebhookOwner,
) -> AdminResult<AccountId> {
    match find_account(request, owner).await? {
        Some(account_id) => Ok(account_id),
        None => account::ensure(request, OPERATORS_EXTERNAL_ID, OPERATORS_NAME).await,
    }
}

/// Reads a webhook of the owner without a lock: for its account, its health and its deliveries.
pub(super) async fn find(
    request: &Request<'_>,
    owner: WebhookOwner,
    webhook_id: WebhookId,
) -> AdminResult<StoredWebhook> {
    let stored = rows::get(request.pool, webhook_id).await;
    let stored = stored.map_err(AdminError::of_statement("look up the webhook"))?;
    let stored = stored.filter(|stored| owner.owns(&stored.webhook));
    Ok(stored.ok_or(AdminRefusal::WebhookNotFound(webhook_id))?)
}

/// Reads a webhook of the locked account.
pub(super) async fn get(
    decision: &mut Decision<'_>,
    owner: WebhookOwner,
    webhook_id: WebhookId,
) -> AdminResult<Webhook> {
    let webhook = rows::get_in_tx(&mut decision.tx, webhook_id).await;
    let webhook = webhook.map_err(AdminError::of_statement("read the webhook"))?;
    let webhook = webhook.filter(|webhook| owner.owns(webhook));
    Ok(webhook.ok_or(AdminRefusal::WebhookNotFound(webhook_id))?)
}

/// Stores the webhook after an event.
pub(super) async fn update(decision: &mut Decision<'_>, webhook: &Webhook) -> AdminResult<()> {
    let updated = rows::update_in_tx(&mut decision.tx, webhook).await;
    updated.map_err(AdminError::of_statement("change the webhook"))
}

/// Returns the next event of the account's stream.
pub(super) fn next_event(decision: &mut Decision<'_>, event: WebhookEvent) -> NewEvent {
    let credits = decision.credits.pass();
    decision.next_event(Event::Webhook(event), credits)
}
