//! `POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry` and the same of the admin API: requests a further
//! attempt of a delivery.

use axum::{http::StatusCode, response::Response};
use linkledger_core::api_key::Scope;
use linkledger_http::{
    problem::Problem,
    request::{delivery_id, webhook_id},
    route_table,
    webhook_views::DeliveryView,
};

use super::{
    schema::{DeliveryIdInPath, WebhookIdInPath},
    webhook_request::WebhookRequest,
};
use crate::{admin::webhook, admin_routes::json};

/// Requests a further attempt of a delivery.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::WEBHOOK_DELIVERY_RETRY,
    tag = "webhooks",
    summary = "Retry a delivery",
    description = "Sends the message of the delivery again, after the messages that are on their way, whatever became \
                   of its attempts. Safe to repeat.",
    params(
        ("webhook_id" = inline(WebhookIdInPath), Path),
        ("delivery_id" = inline(DeliveryIdInPath), Path),
    ),
    responses(
        (status = 202, description = "The delivery, before the attempt.", body = DeliveryView,
         example = json!(DeliveryView::example())),
    ),
    security(("api_key" = [Scope::WebhooksWrite.name()])),
)]
pub async fn retry_delivery(request: WebhookRequest) -> Result<Response, Problem> {
    let call = request.without_body();
    call.master_keys()?;
    let ids = (webhook_id(&call.uri)?, delivery_id(&call.uri)?);
    let command = call.command(None);
    let retry = webhook::retry(&command, call.owner, ids);
    let delivery = call.run(retry).await?;
    Ok(json(StatusCode::ACCEPTED, &delivery))
}
