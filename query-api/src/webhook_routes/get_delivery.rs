//! `GET /v1/webhooks/{webhook_id}/deliveries/{delivery_id}` and the same of the admin API: one delivery.

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use linkledger_core::api_key::Scope;
use linkledger_event_store::webhooks::deliveries;
use linkledger_http::{
    problem::Problem, request::delivery_id, route_table, webhook_views::DeliveryView,
};

use super::webhook_read::WebhookRead;
use crate::{cache_control::NOT_SHARED, consistency::TokenHeader};

/// Returns a delivery.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::WEBHOOK_DELIVERY,
    tag = "webhooks",
    summary = "Read a delivery",
    description = "The delivery, with the outcome of its last attempt.",
    params(
        ("webhook_id" = String, Path, description = "Id of the webhook."),
        ("delivery_id" = String, Path, description = "Id of the delivery."),
        TokenHeader,
    ),
    responses(
        (status = 200, description = "The delivery.", body = DeliveryView, example = json!(DeliveryView::example())),
    ),
    security(("api_key" = [Scope::WebhooksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_delivery(request: WebhookRead) -> Result<Response, Problem> {
    request.check_plain()?;
    let webhook_id = request.webhook().await?.webhook.webhook_id;
    let (pool, delivery_id) = (request.pool(), delivery_id(&request.uri)?);
    let read = || deliveries::get(pool, webhook_id, delivery_id);
    let delivery = request.read(read).await?;
    let delivery = DeliveryView::from(delivery.ok_or_else(Problem::delivery_not_found)?);
    Ok(([(CACHE_CONTROL, NOT_SHARED)], Json(delivery)).into_response())
}
