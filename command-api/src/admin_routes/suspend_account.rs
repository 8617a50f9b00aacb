//! `POST /admin/v1/accounts/{account_id}/suspend`: refuses the API calls of an account.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{api_key::AdminScope, field::FieldError, json::JsonObject};
use linkledger_http::{admin_views::AccountView, problem::Problem, route_table};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{Members, REASON, STOP_REDIRECTS, switch, text},
    schema::{self, AccountIdInPath, IdempotencyKey},
};
use crate::admin::{account, author::EffectKind};

/// Body of the request in the OpenAPI document.
struct AccountSuspend;

impl PartialSchema for AccountSuspend {
    fn schema() -> RefOr<Schema> {
        let stop = "True to answer the short links of the account with 410 during the suspension, false to let them \
                    redirect; by default they stay as they are.";
        let members = [
            (REASON, schema::reason("payment overdue")),
            (STOP_REDIRECTS, schema::switch(stop)),
        ];
        schema::body(&members, &[REASON])
    }
}

impl ToSchema for AccountSuspend {}

/// Suspension that a valid body requests.
struct Suspension {
    reason: String,
    stop_redirects: Option<bool>,
}

/// Suspends an account; of a suspended account, stops or resumes the redirects.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_ACCOUNT_SUSPEND,
    tag = "accounts",
    summary = "Suspend an account",
    description = "Refuses the API calls of the account, in every process within 5 s, except reads of its \
                   balance and ledger. Its links still redirect, unless `stop_redirects` is true.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = AccountSuspend,
                 example = json!({ "reason": "payment overdue", "stop_redirects": false })),
    responses(
        (status = 200, description = "The suspended account. Without a `Consistency-Token` if it was \
                                      suspended so before.",
         body = AccountView, headers(("Idempotent-Replayed")),
         example = json!(AccountView::example())),
    ),
    security(("admin_key" = [AdminScope::Accounts.name()])),
)]
pub async fn suspend_account(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let wanted = request
        .valid((EffectKind::Suspend, &key), parse(&object))
        .await?;
    let account_id = request.account_id()?;
    let command = request.command(Some(key));
    let (reason, stop_redirects) = (&wanted.reason, wanted.stop_redirects);
    let suspended = account::suspend(&command, account_id, reason, stop_redirects);
    let suspended = outcome(suspended).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::OK,
        account_id,
        &suspended,
    ))
}

fn parse(object: &JsonObject) -> Result<Suspension, Vec<FieldError>> {
    let mut members = Members::of(object, &[REASON, STOP_REDIRECTS]);
    let reason = members.required(REASON, text);
    let stop_redirects = members.optional(STOP_REDIRECTS, switch);
    members.finish(|| {
        Some(Suspension {
            reason: reason?,
            stop_redirects,
        })
    })
}
