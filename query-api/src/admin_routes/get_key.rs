//! `GET /admin/v1/keys/{key_id}`: one API key.

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use linkledger_core::api_key::AdminScope;
use linkledger_event_store::api_keys;
use linkledger_http::{
    admin_views::KeyView, problem::Problem, request::key_id, route_table, storage::read_in_time,
};

use super::admin_request::AdminRequest;
use crate::cache_control::NOT_SHARED;

/// Returns an API key, also a revoked or expired one.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_KEY,
    tag = "keys",
    summary = "Read an API key",
    description = "The key without its secret, which is stored nowhere.",
    params(("key_id" = String, Path, description = "Id of the key.")),
    responses(
        (status = 200, description = "The key.", body = KeyView, example = json!(KeyView::example())),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_key(request: AdminRequest) -> Result<Response, Problem> {
    request.check_plain()?;
    let key_id = key_id(&request.uri)?;
    let key = read_in_time(|| api_keys::get(request.log(), key_id)).await?;
    let key = KeyView::from(key.ok_or_else(Problem::key_not_found)?);
    Ok(([(CACHE_CONTROL, NOT_SHARED)], Json(key)).into_response())
}
