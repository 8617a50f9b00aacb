//! `POST /admin/v1/links/{link_id}/disable` and `…/enable`: take a link of any account out of service, and put it back.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{api_key::AdminScope, id::LinkId, link::LinkName};
use linkledger_http::{
    admin_views::LinkView, problem::Problem, request::admin_link_id, route_table,
};
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{REASON, parse_reason},
    schema::{self, IdempotencyKey},
};
use crate::admin::{author::EffectKind, error::Done, link};

/// Body of both requests in the OpenAPI document.
struct LinkReason;

impl PartialSchema for LinkReason {
    fn schema() -> RefOr<Schema> {
        schema::body(&[(REASON, schema::reason("phishing"))], &[REASON])
    }
}

impl ToSchema for LinkReason {}

/// Takes a link out of service.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_LINK_DISABLE,
    tag = "links",
    summary = "Disable a link",
    description = "Takes a link out of service: visitors receive 410. Its owner can still read the link, and \
                   cannot enable it.",
    params(
        ("link_id" = inline(LinkId), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = LinkReason, example = json!({ "reason": "phishing" })),
    responses(
        (status = 200, description = "The disabled link. Without a `Consistency-Token` if an operator had \
                                      disabled it before.",
         body = LinkView, headers(("Idempotent-Replayed")), example = json!(example_of_disabled())),
    ),
    security(("admin_key" = [AdminScope::Links.name()])),
)]
pub async fn disable_link(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let reason = request
        .valid((EffectKind::Disable, &key), parse_reason(&object))
        .await?;
    let link = LinkName::Id(admin_link_id(&request.uri)?);
    let command = request.command(Some(key));
    let disabled = outcome(link::disable(&command, &link, &reason)).await?;
    Ok(answer_with(&request, &disabled))
}

/// Puts a link back into service.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_LINK_ENABLE,
    tag = "links",
    summary = "Enable a link",
    description = "Puts a link that an operator has disabled back into service. A link that its owner has \
                   disabled stays so.",
    params(
        ("link_id" = inline(LinkId), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = LinkReason, example = json!({ "reason": "appeal" })),
    responses(
        (status = 200, description = "The link. Without a `Consistency-Token` if no operator had disabled it.",
         body = LinkView, headers(("Idempotent-Replayed")), example = json!(LinkView::example())),
    ),
    security(("admin_key" = [AdminScope::Links.name()])),
)]
pub async fn enable_link(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let reason = request
        .valid((EffectKind::Enable, &key), parse_reason(&object))
        .await?;
    let link = LinkName::Id(admin_link_id(&request.uri)?);
    let command = request.command(Some(key));
    let enabled = outcome(link::enable(&command, &link, &reason)).await?;
    Ok(answer_with(&request, &enabled))
}

fn answer_with(request: &AdminRequest, done: &Done<LinkView>) -> Response {
    answer::done(&request.state, StatusCode::OK, done.value.account_id, done)
}

fn example_of_disabled() -> Value {
    let mut link = LinkView::example();
    link["disabled"] = true.into();
    link["disabled_by"] = "operator".into();
    link
}
