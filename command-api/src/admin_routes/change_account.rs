//! `PATCH /admin/v1/accounts/{account_id}`: changes name, external id and thresholds of an account.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    account::AccountChangeRequest, api_key::AdminScope, field::FieldError, json::JsonObject,
    schemas::or_null,
};
use linkledger_http::{
    admin_views::AccountView, problem::Problem, request::AcceptedBody, route_table,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{EXTERNAL_ID, LOW_BALANCE_AT, Members, NAME, external_id, low_balance_at, text},
    schema::{self, AccountExternalId, AccountIdInPath},
};
use crate::admin::account;

/// Members of an account that this operation does not change.
const IMMUTABLE: &[&str] = &["id", "state", "redirects_stopped", "balance", "created_at"];

/// Merge patch in the OpenAPI document.
struct AccountPatch;

impl PartialSchema for AccountPatch {
    fn schema() -> RefOr<Schema> {
        let members = [
            (NAME, schema::text("Display name", "Example Ltd")),
            (EXTERNAL_ID, or_null(&AccountExternalId::schema())),
            (LOW_BALANCE_AT, schema::low_balance_at()),
        ];
        schema::body(&members, &[])
    }
}

impl ToSchema for AccountPatch {}

/// Changes name, external id and thresholds of an account. An account with the wanted members stays as it is.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    patch,
    path = route_table::ADMIN_ACCOUNT,
    tag = "accounts",
    summary = "Change an account",
    description = "Takes a JSON merge patch (RFC 7396): `name`, `low_balance_at`, and `external_id`, which \
                   `null` removes. Safe to repeat.",
    params(("account_id" = inline(AccountIdInPath), Path)),
    request_body(content(
        (AccountPatch = "application/merge-patch+json", example = json!({ "name": "Example Ltd" })),
        (AccountPatch = "application/json", example = json!({ "name": "Example Ltd" })),
    )),
    responses(
        (status = 200, description = "The account after the change. Without a `Consistency-Token` if \
                                      nothing changed.",
         body = AccountView, example = json!(AccountView::example())),
    ),
    security(("admin_key" = [AdminScope::Accounts.name()])),
)]
pub async fn change_account(mut request: AdminRequest) -> Result<Response, Problem> {
    let object = request.object(&AcceptedBody::MERGE_PATCH).await?;
    let wanted = parse(&object).map_err(|errors| Problem::validation_failed(&errors))?;
    let account_id = request.account_id()?;
    let command = request.command(None);
    let changed = outcome(account::change(&command, account_id, &wanted)).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::OK,
        account_id,
        &changed,
    ))
}

fn parse(object: &JsonObject) -> Result<AccountChangeRequest, Vec<FieldError>> {
    let mut members = Members::of_patch(object, &[NAME, EXTERNAL_ID, LOW_BALANCE_AT], IMMUTABLE);
    let name = members.optional(NAME, text);
    let external_id = members.update(EXTERNAL_ID, external_id);
    let low_balance_at = low_balance_at(&mut members);
    members.finish(|| {
        Some(AccountChangeRequest {
            name,
            external_id,
            low_balance_at,
        })
    })
}
