//! `PUT /admin/v1/accounts/by-external-id/{external_id}`: creates an account, or changes the one that has the external
//! id.

use axum::{
    http::{StatusCode, Uri},
    response::Response,
};
use linkledger_core::{
    account::OPERATORS_EXTERNAL_ID,
    api_key::AdminScope,
    credits::LowBalanceAt,
    field::{FieldCode, FieldError},
    json::JsonObject,
};
use linkledger_http::{
    admin_views::AccountView,
    problem::Problem,
    request::{AcceptedBody, account_external_id},
    route_table,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer, create_account,
    members::{EXTERNAL_ID, LOW_BALANCE_AT, Members, NAME, low_balance_at, text},
    schema::{self, AccountExternalId},
};
use crate::admin::account;

/// Body of the request in the OpenAPI document.
struct AccountUpsert;

impl PartialSchema for AccountUpsert {
    fn schema() -> RefOr<Schema> {
        let members = [
            (NAME, schema::text("Display name", "Example Ltd")),
            (LOW_BALANCE_AT, schema::low_balance_at()),
        ];
        schema::body(&members, &[NAME])
    }
}

impl ToSchema for AccountUpsert {}

/// Creates an account, or gives it the name and the thresholds. Of many requests at once, one creates.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    put,
    path = route_table::ADMIN_ACCOUNT_BY_EXTERNAL_ID,
    tag = "accounts",
    summary = "Create or change an account by its external id",
    description = "Creates an account without credits and keys, or gives the name, and \
                   `low_balance_at` if the body has it, to the account that has the external id. Safe to repeat: of many requests at once, one creates.",
    params(("external_id" = inline(AccountExternalId), Path,
            description = "Id of the account in your system, percent-encoded: `/` is `%2F`.")),
    request_body(content = AccountUpsert, example = json!({ "name": "Example Ltd" })),
    responses(
        (status = 200, description = "The account, which existed before. Without a `Consistency-Token` if \
                                      nothing changed.",
         body = AccountView, example = json!(AccountView::example())),
        (status = 201, description = "The account was created.", body = AccountView,
         headers(("Location"), ("Consistency-Token")), example = json!(AccountView::example())),
    ),
    security(("admin_key" = [AdminScope::Accounts.name()])),
)]
pub async fn upsert_account(mut request: AdminRequest) -> Result<Response, Problem> {
    let external_id = external_id_in(&request.uri)?;
    let object = request.object(&AcceptedBody::JSON).await?;
    let (name, thresholds) =
        parse(&object).map_err(|errors| Problem::validation_failed(&errors))?;
    let command = request.command(None);
    let (done, is_new) =
        outcome(account::upsert(&command, &external_id, &name, thresholds)).await?;
    let account_id = done.value.id;
    if !is_new {
        return Ok(answer::done(
            &request.state,
            StatusCode::OK,
            account_id,
            &done,
        ));
    }
    let response = answer::done(&request.state, StatusCode::CREATED, account_id, &done);
    Ok(answer::at(response, &create_account::path(&done.value)))
}

/// Returns the external id that the path names.
fn external_id_in(uri: &Uri) -> Result<String, Problem> {
    let refused =
        |code: FieldCode| Problem::invalid_parameter(EXTERNAL_ID, code.as_str(), code.detail());
    let external_id = account_external_id(uri);
    let external_id = external_id.ok_or_else(|| refused(FieldCode::ExternalIdInvalid))?;
    if external_id == OPERATORS_EXTERNAL_ID {
        return Err(refused(FieldCode::ExternalIdReserved));
    }
    Ok(external_id)
}

fn parse(object: &JsonObject) -> Result<(String, Option<LowBalanceAt>), Vec<FieldError>> {
    let mut members = Members::of(object, &[NAME, LOW_BALANCE_AT]);
    let name = members.required(NAME, text);
    let low_balance_at = low_balance_at(&mut members);
    members.finish(|| Some((name?, low_balance_at)))
}
