//! `DELETE /admin/v1/keys/{key_id}`: revokes an API key.

use axum::{http::StatusCode, response::Response};
use linkledger_core::api_key::AdminScope;
use linkledger_http::{admin_views::KeyView, problem::Problem, request::key_id, route_table};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    schema::KeyIdInPath,
};
use crate::admin::key;

/// Revokes a key. A revoked key stays so.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    delete,
    path = route_table::ADMIN_KEY,
    tag = "keys",
    summary = "Revoke an API key",
    description = "Revokes the key: every process refuses it within 5 s. The key can still be read. Safe to \
                   repeat.",
    params(("key_id" = inline(KeyIdInPath), Path)),
    responses(
        (status = 200, description = "The revoked key. Without a `Consistency-Token` if it was revoked \
                                      before.",
         body = KeyView, example = json!(KeyView::example())),
    ),
    security(("admin_key" = [AdminScope::Keys.name()])),
)]
pub async fn revoke_key(request: AdminRequest) -> Result<Response, Problem> {
    let key_id = key_id(&request.uri)?;
    let command = request.command(None);
    let revoked = outcome(key::revoke(&command, key_id)).await?;
    let account_id = revoked.value.account_id;
    Ok(answer::done(
        &request.state,
        StatusCode::OK,
        account_id,
        &revoked,
    ))
}
