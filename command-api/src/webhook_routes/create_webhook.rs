//! `POST /v1/webhooks` and `POST /admin/v1/webhooks`: creates a webhook, once per idempotency key if there is one.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{api_key::Scope, field::FieldError, json::JsonObject, webhook::UrlRules};
use linkledger_http::{
    admin_body::Members, problem::Problem, route_table, webhook_views::WebhookView,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    members::{DESCRIPTION, IN_ORDER, TYPES, URL, switch, text, text_of, types},
    schema::{self, Audience, OptionalKey},
    webhook_request::WebhookRequest,
};
use crate::{
    admin::{
        author::EffectKind,
        webhook::{self, NewWebhook, WebhookOwner},
    },
    admin_routes::at,
};

/// Body of the request in the OpenAPI document.
pub(super) struct WebhookCreate;

impl PartialSchema for WebhookCreate {
    fn schema() -> RefOr<Schema> {
        schema::creation(Audience::Owners)
    }
}

impl ToSchema for WebhookCreate {}

/// Creates a webhook, which receives messages about later events.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::WEBHOOKS,
    tag = "webhooks",
    summary = "Create a webhook",
    description = "Creates a webhook, enabled: it receives a message about each later event of its types. The answer \
                   has the secret that signs the messages.",
    params(OptionalKey),
    request_body(content = WebhookCreate,
                 example = json!({ "url": "https://shop.example.com/hooks", "types": ["link.created"] })),
    responses(
        (status = 201, description = "The webhook was created. A replay has the secret too.", body = WebhookView,
         headers(("Location"), ("Consistency-Token"), ("Idempotent-Replayed")),
         example = json!(WebhookView::example_of_new())),
    ),
    security(("api_key" = [Scope::WebhooksWrite.name()])),
)]
pub async fn create_webhook(request: WebhookRequest) -> Result<Response, Problem> {
    let (call, key, object) = request.keyed_object().await?;
    let keys = call.master_keys()?;
    let parsed = parse(&object, call.owner, &call.settings().url_rules);
    let new = call
        .valid((EffectKind::Webhook, key.as_deref()), parsed)
        .await?;
    let command = call.command(key);
    let creation = webhook::create(&command, call.owner, keys, &new);
    let created = call.run(Box::pin(creation)).await?;
    let path = format!("{}/{}", call.collection(), created.value.id);
    Ok(at(call.answer(StatusCode::CREATED, &created), &path))
}

fn parse(
    object: &JsonObject,
    owner: WebhookOwner,
    rules: &UrlRules,
) -> Result<NewWebhook, Vec<FieldError>> {
    let mut members = Members::of(object, &[URL, TYPES, DESCRIPTION, IN_ORDER]);
    let url = members.required(URL, |value| rules.parse(text_of(value)?));
    let types = types(&mut members, owner);
    let description = members.optional(DESCRIPTION, text);
    let in_order = members.optional(IN_ORDER, switch);
    members.finish(|| {
        Some(NewWebhook {
            url: url?,
            types: types.unwrap_or_default(),
            description,
            in_order: in_order.unwrap_or_default(),
        })
    })
}
