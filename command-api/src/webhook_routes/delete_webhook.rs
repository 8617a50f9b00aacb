//! `DELETE /v1/webhooks/{webhook_id}` and the same of the admin API: deletes a webhook.

use axum::response::Response;
use linkledger_core::api_key::Scope;
use linkledger_http::{problem::Problem, request::webhook_id, route_table};

use super::{schema::WebhookIdInPath, webhook_request::WebhookRequest};
use crate::admin::webhook;

/// Deletes a webhook, with its deliveries.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    delete,
    path = route_table::WEBHOOK,
    tag = "webhooks",
    summary = "Delete a webhook",
    description = "Deletes the webhook for ever, with its deliveries. A message that is being sent may still arrive.",
    params(("webhook_id" = inline(WebhookIdInPath), Path)),
    responses(
        (status = 204, description = "The webhook is deleted.", headers(("Consistency-Token"))),
    ),
    security(("api_key" = [Scope::WebhooksWrite.name()])),
)]
pub async fn delete_webhook(request: WebhookRequest) -> Result<Response, Problem> {
    let call = request.without_body();
    call.master_keys()?;
    let webhook_id = webhook_id(&call.uri)?;
    let command = call.command(None);
    let deletion = webhook::delete(&command, call.owner, webhook_id);
    let deleted = call.run(deletion).await?;
    Ok(call.empty_answer(&deleted))
}
