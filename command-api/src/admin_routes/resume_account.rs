//! `POST /admin/v1/accounts/{account_id}/resume`: puts a suspended account back into service.

use axum::{http::StatusCode, response::Response};
use linkledger_core::api_key::AdminScope;
use linkledger_http::{admin_views::AccountView, problem::Problem, route_table};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{REASON, parse_reason},
    schema::{self, AccountIdInPath, IdempotencyKey},
};
use crate::admin::{account, author::EffectKind};

/// Body of the request in the OpenAPI document.
struct AccountResume;

impl PartialSchema for AccountResume {
    fn schema() -> RefOr<Schema> {
        schema::body(&[(REASON, schema::reason("payment received"))], &[REASON])
    }
}

impl ToSchema for AccountResume {}

/// Puts a suspended account and its links back into service.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_ACCOUNT_RESUME,
    tag = "accounts",
    summary = "Resume an account",
    description = "Puts a suspended account back into service, in every process within 5 s; its links \
                   redirect again.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = AccountResume, example = json!({ "reason": "payment received" })),
    responses(
        (status = 200, description = "The active account. Without a `Consistency-Token` if it was active \
                                      before.",
         body = AccountView, headers(("Idempotent-Replayed")),
         example = json!(AccountView::example())),
    ),
    security(("admin_key" = [AdminScope::Accounts.name()])),
)]
pub async fn resume_account(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let reason = request
        .valid((EffectKind::Resume, &key), parse_reason(&object))
        .await?;
    let account_id = request.account_id()?;
    let command = request.command(Some(key));
    let resumed = outcome(account::resume(&command, account_id, &reason)).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::OK,
        account_id,
        &resumed,
    ))
}
