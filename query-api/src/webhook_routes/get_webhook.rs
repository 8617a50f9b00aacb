//! `GET /v1/webhooks/{webhook_id}` and the same of the admin API: one webhook.

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use linkledger_core::api_key::Scope;
use linkledger_http::{problem::Problem, route_table, webhook_views::WebhookView};

use super::webhook_read::WebhookRead;
use crate::{cache_control::NOT_SHARED, consistency::TokenHeader};

/// Returns a webhook.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::WEBHOOK,
    tag = "webhooks",
    summary = "Read a webhook",
    description = "The webhook, with the health of its receiver and the number of deliveries that wait or have failed; \
                   without its secret.",
    params(("webhook_id" = String, Path, description = "Id of the webhook."), TokenHeader),
    responses(
        (status = 200, description = "The webhook.", body = WebhookView, example = json!(WebhookView::example())),
    ),
    security(("api_key" = [Scope::WebhooksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_webhook(request: WebhookRead) -> Result<Response, Problem> {
    request.check_plain()?;
    let webhook = WebhookView::from(request.webhook().await?);
    Ok(([(CACHE_CONTROL, NOT_SHARED)], Json(webhook)).into_response())
}
