//! `GET /admin/v1/accounts/{account_id}` and `GET /admin/v1/accounts/by-external-id/{external_id}`: one account.

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use linkledger_core::api_key::AdminScope;
use linkledger_event_store::accounts::{self, ListedAccount};
use linkledger_http::{
    admin_views::AccountView, problem::Problem, request::account_external_id, route_table,
    storage::read_in_time,
};

use super::admin_request::{AdminRequest, read_account};
use crate::cache_control::NOT_SHARED;

/// Returns an account.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_ACCOUNT,
    tag = "accounts",
    summary = "Read an account",
    description = "The account with its balance.",
    params(("account_id" = String, Path, description = "Id of the account.")),
    responses(
        (status = 200, description = "The account.", body = AccountView, example = json!(AccountView::example())),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_account(request: AdminRequest) -> Result<Response, Problem> {
    request.check_plain()?;
    Ok(answer(&request.account().await?))
}

/// Returns the account with an id in the seller's system.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_ACCOUNT_BY_EXTERNAL_ID,
    tag = "accounts",
    summary = "Read an account by its external id",
    description = "The account with this id in the seller's system, with its balance.",
    params(("external_id" = String, Path, description = "Id in the seller's system, percent-encoded.")),
    responses(
        (status = 200, description = "The account.", body = AccountView, example = json!(AccountView::example())),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_account_by_external_id(request: AdminRequest) -> Result<Response, Problem> {
    request.check_plain()?;
    let log = request.log();
    let external_id = account_external_id(&request.uri).ok_or_else(Problem::account_not_found)?;
    let found = read_in_time(|| accounts::find_by_external_id(log, &external_id)).await?;
    let account_id = found.ok_or_else(Problem::account_not_found)?;
    Ok(answer(&read_account(log, account_id).await?))
}

fn answer(listed: &ListedAccount) -> Response {
    let body = AccountView::of_account(&listed.account, listed.balance);
    ([(CACHE_CONTROL, NOT_SHARED)], Json(body)).into_response()
}
