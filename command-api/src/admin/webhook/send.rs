//! Sends a message for a test, or attempts a delivery again. The dispatcher does both: here they are only requested.

use linkledger_core::{
    clock::new_uuid,
    id::{DeliveryId, EventId, WebhookId},
    webhook::DELIVERIES_WAITING_MAX,
};
use linkledger_event_store::webhooks::{deliveries, rows::StoredWebhook};
use linkledger_http::webhook_views::DeliveryView;

use super::{WebhookOwner, rows::find};
use crate::admin::{
    author::Request,
    error::{AdminError, AdminRefusal, AdminResult, violates},
};

const WEBHOOK_KNOWN: &str = "webhook_deliveries_webhook_known";

/// Requests a message of the type `webhook.test`, with an id of its own.
///
/// # Errors
/// Returns an error if the owner has no such webhook, if it is disabled, if too many of its deliveries wait, or if the
/// database fails.
pub async fn test(
    request: &Request<'_>,
    owner: WebhookOwner,
    webhook_id: WebhookId,
) -> AdminResult<DeliveryView> {
    let stored = find_enabled(request, owner, webhook_id).await?;
    if stored.waiting >= DELIVERIES_WAITING_MAX {
        return Err(AdminRefusal::DeliveriesWait(webhook_id).into());
    }
    let (pool, now) = (request.pool, request.clock.now());
    let event_id = EventId::from_uuid(new_uuid(now));
    let inserted = deliveries::insert_test(pool, webhook_id, event_id, now).await;
    let delivery_id = match inserted {
        Ok(delivery_id) => delivery_id,
        // Somebody has deleted the webhook meanwhile.
        Err(error) if violates(&error, &[WEBHOOK_KNOWN]) => {
            return Err(AdminRefusal::WebhookNotFound(webhook_id).into());
        }
        Err(error) => return Err(AdminError::of_statement("store the test")(error)),
    };
    let delivery = deliveries::get(pool, webhook_id, delivery_id).await;
    let delivery = delivery.map_err(AdminError::of_statement("read the test"))?;
    Ok(delivery
        .ok_or(AdminRefusal::WebhookNotFound(webhook_id))?
        .into())
}

/// Makes a delivery due now, whatever became of its attempts.
///
/// # Errors
/// Returns an error if the owner has no such webhook, if it is disabled or has no such delivery, or if the database
/// fails.
pub async fn retry(
    request: &Request<'_>,
    owner: WebhookOwner,
    (webhook_id, delivery_id): (WebhookId, DeliveryId),
) -> AdminResult<DeliveryView> {
    find_enabled(request, owner, webhook_id).await?;
    let now = request.clock.now();
    let delivery = deliveries::retry_now(request.pool, webhook_id, delivery_id, now).await;
    let delivery = delivery.map_err(AdminError::of_statement("request the retry"))?;
    Ok(delivery
        .ok_or(AdminRefusal::DeliveryNotFound(delivery_id))?
        .into())
}

/// Reads an enabled webhook: a disabled one sends nothing.
async fn find_enabled(
    request: &Request<'_>,
    owner: WebhookOwner,
    webhook_id: WebhookId,
) -> AdminResult<StoredWebhook> {
    let stored = find(request, owner, webhook_id).await?;
    if !stored.webhook.enabled {
        return Err(AdminRefusal::WebhookDisabled(webhook_id).into());
    }
    Ok(stored)
}
