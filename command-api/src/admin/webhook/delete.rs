//! Deletes a webhook.

use linkledger_core::{
    id::WebhookId,
    webhook::{WebhookDeleted, WebhookEvent},
};
use linkledger_event_store::webhooks::rows as stored;

use super::{
    WebhookOwner,
    rows::{find, get, next_event},
};
use crate::admin::{
    author::Request,
    error::{AdminError, AdminResult, Done},
    operator,
};

/// Deletes a webhook with its deliveries. A message that is being sent may still arrive.
///
/// # Errors
/// Returns an error if the owner has no such webhook, or the database fails.
pub async fn delete(
    request: &Request<'_>,
    owner: WebhookOwner,
    webhook_id: WebhookId,
) -> AdminResult<Done<()>> {
    let account_id = find(request, owner, webhook_id).await?.webhook.account_id;
    let mut decision = operator::begin(request, account_id).await?;
    get(&mut decision, owner, webhook_id).await?;
    let deleted = stored::delete_in_tx(&mut decision.tx, webhook_id).await;
    deleted.map_err(AdminError::of_statement("delete the webhook"))?;
    let deleted = WebhookDeleted {
        account_id,
        webhook_id,
    };
    let event = next_event(&mut decision, WebhookEvent::Deleted(deleted));
    Ok(Done {
        value: (),
        replayed: false,
        position: Some(decision.append(&[event]).await?),
    })
}
