//! `GET /v1/webhooks` and `GET /admin/v1/webhooks`: all webhooks, oldest first.

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use linkledger_core::api_key::Scope;
use linkledger_http::{problem::Problem, route_table, webhook_views::WebhookView};

use super::webhook_read::WebhookRead;
use crate::{cache_control::NOT_SHARED, consistency::TokenHeader, paging::Page};

/// Body of the answer, with a name of its own in the OpenAPI document.
type WebhookPage = Page<WebhookView>;

/// Lists all webhooks, enabled or not.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::WEBHOOKS,
    tag = "webhooks",
    summary = "List the webhooks",
    description = "All webhooks, at most 10, oldest first, on one page.",
    params(TokenHeader),
    responses(
        (status = 200, description = "The only page.", body = WebhookPage,
         example = json!({ "items": [WebhookView::example()], "next_cursor": null, "has_more": false })),
    ),
    security(("api_key" = [Scope::WebhooksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_webhooks(request: WebhookRead) -> Result<Response, Problem> {
    request.check_plain()?;
    let webhooks = request.webhooks().await?;
    let items = webhooks.into_iter().map(WebhookView::from).collect();
    let page = WebhookPage::whole(items);
    Ok(([(CACHE_CONTROL, NOT_SHARED)], Json(page)).into_response())
}
