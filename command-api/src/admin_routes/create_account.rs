//! `POST /admin/v1/accounts`: creates an account, once per idempotency key.

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
    members::{EXTERNAL_ID, LOW_BALANCE_AT, Members, NAME, external_id, low_balance_at, text},
    schema::{self, AccountExternalId, IdempotencyKey},
};
use crate::admin::{
    account::{self, NewAccount},
    author::EffectKind,
};

/// Body of the request in the OpenAPI document.
struct AccountCreate;

impl PartialSchema for AccountCreate {
    fn schema() -> RefOr<Schema> {
        let members = [
            (NAME, schema::text("Display name", "Example Ltd")),
            (EXTERNAL_ID, AccountExternalId::schema()),
            (LOW_BALANCE_AT, schema::low_balance_at()),
        ];
        schema::body(&members, &[NAME])
    }
}

impl ToSchema for AccountCreate {}

/// Creates an account without credits and keys.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_ACCOUNTS,
    tag = "accounts",
    summary = "Create an account",
    description = "Creates an account without credits and keys.",
    params(("Idempotency-Key" = inline(IdempotencyKey), Header)),
    request_body(content = AccountCreate,
                 example = json!({ "name": "Example Ltd", "external_id": "customers/4711" })),
    responses(
        (status = 201, description = "The account was created.", body = AccountView,
         headers(("Location"), ("Consistency-Token"), ("Idempotent-Replayed")),
         example = json!(AccountView::example())),
    ),
    security(("admin_key" = [AdminScope::Accounts.name()])),
)]
pub async fn create_account(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let new = request
        .valid((EffectKind::Account, &key), parse(&object))
        .await?;
    let command = request.command(Some(key));
    let created = outcome(account::create(&command, &new)).await?;
    let account_id = created.value.id;
    let response = answer::done(&request.state, StatusCode::CREATED, account_id, &created);
    Ok(answer::at(response, &path(&created.value)))
}

/// Returns the path of an account.
pub(super) fn path(account: &AccountView) -> String {
    format!("{}/{}", route_table::ADMIN_ACCOUNTS, account.id)
}

fn parse(object: &JsonObject) -> Result<NewAccount, Vec<FieldError>> {
    let mut members = Members::of(object, &[NAME, EXTERNAL_ID, LOW_BALANCE_AT]);
    let name = members.required(NAME, text);
    let external_id = members.optional(EXTERNAL_ID, external_id);
    let low_balance_at = low_balance_at(&mut members);
    members.finish(|| {
        Some(NewAccount {
            name: name?,
            external_id,
            low_balance_at,
        })
    })
}
