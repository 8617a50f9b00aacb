//! `GET /admin/v1/status`: the report that `projector status --json` prints.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Uri, header::CACHE_CONTROL},
    response::{IntoResponse as _, Response},
};
use linkledger_core::api_key::AdminScope;
use linkledger_http::{
    problem::Problem,
    request::{check_accept, check_no_query},
    route_table,
};

use super::{AdminState, NO_STORE};
use crate::operations::status::{self, StatusReport};

/// Returns the state of all followers of the log.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_STATUS,
    tag = "operations",
    summary = "Read the status",
    description = "State of the projections, of the relay, of the aggregation of clicks and of operators' commands, \
                   as `projector status --json` prints it. All is well while `findings` is empty.",
    responses((status = 200, description = "The status.", body = StatusReport)),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub async fn get_status(
    State(admin): State<Arc<AdminState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_no_query(&uri)?;
    check_accept(&headers)?;
    let status = status::collect(&admin.databases).await;
    let status = status.map_err(|error| {
        tracing::error!(error = format!("{error:#}"), "cannot read the status");
        Problem::storage_unavailable()
    })?;
    Ok(([(CACHE_CONTROL, NO_STORE)], Json(status)).into_response())
}
