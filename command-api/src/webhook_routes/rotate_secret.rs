//! `POST /v1/webhooks/{webhook_id}/rotate-secret` and the same of the admin API: replaces the secret of a webhook, once
//! per idempotency key if there is one.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{api_key::Scope, field::FieldError, json::JsonObject};
use linkledger_http::{
    admin_body::Members, problem::Problem, request::webhook_id, route_table,
    webhook_views::RotatedSecretView,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    members::{OVERLAP_HOURS, overlap_hours},
    schema::{self, OptionalKey, WebhookIdInPath},
    webhook_request::WebhookRequest,
};
use crate::admin::{
    author::EffectKind,
    webhook::{self, OVERLAP_HOURS_DEFAULT},
};

/// Body of the request in the OpenAPI document.
struct SecretRotate;

impl PartialSchema for SecretRotate {
    fn schema() -> RefOr<Schema> {
        schema::rotation()
    }
}

impl ToSchema for SecretRotate {}

/// Replaces the secret of a webhook.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::WEBHOOK_ROTATE_SECRET,
    tag = "webhooks",
    summary = "Rotate the secret of a webhook",
    description = "Makes a new secret. During the overlap, messages are signed with the new and the replaced secret; \
                   a further rotation ends the overlap of the one before.",
    params(("webhook_id" = inline(WebhookIdInPath), Path), OptionalKey),
    request_body(content = SecretRotate, example = json!({ "overlap_hours": 24 })),
    responses(
        (status = 200, description = "The new secret. A replay has it too.", body = RotatedSecretView,
         headers(("Consistency-Token"), ("Idempotent-Replayed")),
         example = json!(RotatedSecretView::example())),
    ),
    security(("api_key" = [Scope::WebhooksWrite.name()])),
)]
pub async fn rotate_secret(request: WebhookRequest) -> Result<Response, Problem> {
    let (call, key, object) = request.keyed_object().await?;
    let keys = call.master_keys()?;
    let overlap_hours = call
        .valid((EffectKind::RotateSecret, key.as_deref()), parse(&object))
        .await?;
    let webhook_id = webhook_id(&call.uri)?;
    let command = call.command(key);
    let rotation = webhook::rotate(&command, call.owner, keys, (webhook_id, overlap_hours));
    let rotated = call.run(rotation).await?;
    Ok(call.answer(StatusCode::OK, &rotated))
}

fn parse(object: &JsonObject) -> Result<u16, Vec<FieldError>> {
    let mut members = Members::of(object, &[OVERLAP_HOURS]);
    let hours = members.optional(OVERLAP_HOURS, overlap_hours);
    members.finish(|| Some(hours.unwrap_or(OVERLAP_HOURS_DEFAULT)))
}
