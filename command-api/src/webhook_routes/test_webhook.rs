//! `POST /v1/webhooks/{webhook_id}/test` and the same of the admin API: requests a message for a test.

use axum::{http::StatusCode, response::Response};
use linkledger_core::api_key::Scope;
use linkledger_http::{
    problem::Problem, request::webhook_id, route_table, webhook_views::DeliveryView,
};

use super::{schema::WebhookIdInPath, webhook_request::WebhookRequest};
use crate::{admin::webhook, admin_routes::json};

/// Requests a message for a test.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::WEBHOOK_TEST,
    tag = "webhooks",
    summary = "Test a webhook",
    description = "Sends a message of the type `webhook.test` to the webhook, whatever its types, after the messages \
                   that are on their way, also while its receiver is ill. Read the delivery to see the outcome. \
                   There is no `Idempotency-Key`: a repeated request sends a second message.",
    params(("webhook_id" = inline(WebhookIdInPath), Path)),
    responses(
        (status = 202, description = "The delivery, before its first attempt.", body = DeliveryView,
         example = json!(DeliveryView::example_of_test())),
    ),
    security(("api_key" = [Scope::WebhooksWrite.name()])),
)]
pub async fn test_webhook(request: WebhookRequest) -> Result<Response, Problem> {
    let call = request.without_body();
    call.master_keys()?;
    let webhook_id = webhook_id(&call.uri)?;
    let command = call.command(None);
    let test = webhook::test(&command, call.owner, webhook_id);
    let delivery = call.run(test).await?;
    Ok(json(StatusCode::ACCEPTED, &delivery))
}
