//! `POST /v1/webhooks/{webhook_id}/replay` and the same of the admin API: sends messages about earlier events again.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::Scope,
    field::{FieldCode, FieldError},
    json::JsonObject,
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
    members::{FROM, TO, event_id, instant},
    schema::{self, WebhookIdInPath},
    webhook_request::WebhookRequest,
};
use crate::{
    admin::webhook::{self, ReplayRange, ReplayStart},
    admin_routes::{AFTER, json},
};

/// Body of the request in the OpenAPI document.
struct WebhookReplay;

impl PartialSchema for WebhookReplay {
    fn schema() -> RefOr<Schema> {
        schema::replay()
    }
}

impl ToSchema for WebhookReplay {}

/// Sends the messages about a range of events again.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::WEBHOOK_REPLAY,
    tag = "webhooks",
    summary = "Replay messages",
    description = "Sends the messages about the events of a range again, with the types that the webhook has now, \
                   beside the messages about new events. Send either `from` or `after`. A replayed message has the id \
                   of the first one. There is no `Idempotency-Key`: a request that is repeated while the replay runs \
                   is refused, and a later one sends the messages once more.",
    params(("webhook_id" = inline(WebhookIdInPath), Path)),
    request_body(content = WebhookReplay, example = json!({ "from": "2026-11-20T09:00:00Z" })),
    responses(
        (status = 202, description = "The webhook. `is_replaying` is true until the replay has ended; false if the \
                                      range has no events.",
         body = WebhookView, example = json!(WebhookView::example())),
    ),
    security(("api_key" = [Scope::WebhooksWrite.name()])),
)]
pub async fn replay_webhook(request: WebhookRequest) -> Result<Response, Problem> {
    let (call, object) = request.object(&AcceptedBody::JSON).await?;
    call.master_keys()?;
    let range = parse(&object).map_err(|errors| Problem::validation_failed(&errors))?;
    let webhook_id = webhook_id(&call.uri)?;
    let command = call.command(None);
    let replay = webhook::replay(&command, call.owner, webhook_id, range);
    let webhook = call.run(replay).await?;
    Ok(json(StatusCode::ACCEPTED, &webhook))
}

fn parse(object: &JsonObject) -> Result<ReplayRange, Vec<FieldError>> {
    let mut members = Members::of(object, &[FROM, AFTER, TO]);
    let from = members.optional(FROM, instant);
    let after = members.optional(AFTER, event_id);
    let to = members.optional(TO, instant);
    let has = |name: &str| object.members().contains_key(name);
    if !has(FROM) && !has(AFTER) {
        members.refuse(FROM, FieldCode::ReplayStartInvalid);
    }
    if has(FROM) && has(AFTER) {
        members.refuse(AFTER, FieldCode::ReplayStartInvalid);
    }
    if from.zip(to).is_some_and(|(from, to)| to <= from) {
        members.refuse(TO, FieldCode::ReplayEndInvalid);
    }
    let from = from.map(ReplayStart::From);
    let start = from.or(after.map(ReplayStart::After));
    members.finish(|| Some(ReplayRange { start: start?, to }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn codes(body: &Value) -> Vec<String> {
        let object = JsonObject::parse(body.to_string().as_bytes()).unwrap();
        let errors = parse(&object).err().unwrap_or_default();
        let text = |error: &FieldError| format!("{} {}", error.pointer, error.code);
        errors.iter().map(text).collect()
    }

    #[test]
    fn replay_starts_at_an_instant_or_after_an_event() {
        let event = "evt_01h455vb4pex5vsknk084sn02s";
        let instant = "2026-11-20T09:00:00Z";
        for valid in [
            json!({ "from": instant }),
            json!({ "after": event }),
            json!({ "after": event, "to": instant }),
            json!({ "from": instant, "to": "2026-11-20T11:00:00+01:00" }),
        ] {
            assert_eq!(codes(&valid), [""; 0], "{valid}");
        }
        for (body, error) in [
            (json!({}), "#/from replay_start_invalid"),
            (
                json!({ "from": instant, "after": event }),
                "#/after replay_start_invalid",
            ),
            (
                json!({ "from": instant, "to": instant }),
                "#/to replay_end_invalid",
            ),
            (json!({ "from": "yesterday" }), "#/from instant_invalid"),
            (json!({ "after": "evt_1" }), "#/after event_id_invalid"),
            (json!({ "after": null }), "#/after null_not_allowed"),
        ] {
            assert_eq!(codes(&body), [error], "{body}");
        }
    }
}
