//! `PATCH /v1/webhooks/{webhook_id}` and the same of the admin API: changes a webhook.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::Scope,
    field::FieldError,
    json::JsonObject,
    webhook::{UrlRules, WebhookChangeRequest},
};
use linkledger_http::{
    admin_body::Members,
    problem::Problem,
    request::{AcceptedBody, webhook_id},
    route_table,
    webhook_views::WebhookView,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    members::{DESCRIPTION, ENABLED, IN_ORDER, TYPES, URL, switch, text, text_of, types},
    schema::{self, Audience, WebhookIdInPath},
    webhook_request::WebhookRequest,
};
use crate::admin::webhook::{self, WebhookOwner};

/// Members of a webhook that this operation does not change.
const IMMUTABLE: &[&str] = &[
    "id",
    "disabled_reason",
    "health",
    "waiting",
    "failed",
    "is_replaying",
    "created_at",
    "updated_at",
    "secret",
];

/// Merge patch in the OpenAPI document.
pub(super) struct WebhookPatch;

impl PartialSchema for WebhookPatch {
    fn schema() -> RefOr<Schema> {
        schema::patch(Audience::Owners)
    }
}

impl ToSchema for WebhookPatch {}

/// Changes a webhook. A webhook with the wanted members stays as it is.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    patch,
    path = route_table::WEBHOOK,
    tag = "webhooks",
    summary = "Change a webhook",
    description = "Takes a JSON merge patch (RFC 7396): `url`, `types`, which replace all types, `description`, which \
                   `null` removes, `enabled` and `in_order`. An enabled webhook goes on where it has stopped. Messages \
                   that are being sent are not recalled.",
    params(("webhook_id" = inline(WebhookIdInPath), Path)),
    request_body(content(
        (WebhookPatch = "application/merge-patch+json", example = json!({ "enabled": false })),
        (WebhookPatch = "application/json", example = json!({ "enabled": false })),
    )),
    responses(
        (status = 200, description = "The webhook after the change. Without a `Consistency-Token` if nothing changed.",
         body = WebhookView, example = json!(WebhookView::example())),
    ),
    security(("api_key" = [Scope::WebhooksWrite.name()])),
)]
pub async fn change_webhook(request: WebhookRequest) -> Result<Response, Problem> {
    let (call, object) = request.object(&AcceptedBody::MERGE_PATCH).await?;
    call.master_keys()?;
    let wanted = parse(&object, call.owner, &call.settings().url_rules);
    let wanted = wanted.map_err(|errors| Problem::validation_failed(&errors))?;
    let webhook_id = webhook_id(&call.uri)?;
    let command = call.command(None);
    let change = webhook::change(&command, call.owner, webhook_id, &wanted);
    let changed = call.run(Box::pin(change)).await?;
    Ok(call.answer(StatusCode::OK, &changed))
}

fn parse(
    object: &JsonObject,
    owner: WebhookOwner,
    rules: &UrlRules,
) -> Result<WebhookChangeRequest, Vec<FieldError>> {
    const MUTABLE: &[&str] = &[URL, TYPES, DESCRIPTION, ENABLED, IN_ORDER];
    let mut members = Members::of_patch(object, MUTABLE, IMMUTABLE);
    let url = members.optional(URL, |value| rules.parse(text_of(value)?));
    let types = types(&mut members, owner);
    let description = members.update(DESCRIPTION, text);
    let enabled = members.optional(ENABLED, switch);
    let in_order = members.optional(IN_ORDER, switch);
    members.finish(|| {
        Some(WebhookChangeRequest {
            url,
            types,
            description,
            enabled,
            in_order,
        })
    })
}
