//! `DELETE /v1/links/{id}`: ends a link for ever.

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use linkledger_core::{
    batch::{ChangeRequest, LinkChange},
    http::{
        authentication::Caller,
        entity_tag,
        request::{RequestContext, check_accept, check_no_query, link_id},
    },
    problem::Problem,
};

use super::{AppState, answer};

/// Deletes a link. A deleted one stays deleted.
///
/// # Errors
/// The problems of contract §9, in its order of checks.
pub async fn delete_link(
    State(state): State<AppState>,
    Extension(context): Extension<RequestContext>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    check_no_query(request.uri())?;
    check_accept(request.headers())?;
    let delete = LinkChange {
        account_id: caller.account_id,
        link_id: link_id(request.uri()),
        request: ChangeRequest::Delete(entity_tag::expected_version(request.headers())),
        metadata: answer::metadata(&context, &caller),
    };
    let settled = answer::to_change(state.queue.submit_change(delete).await)?;
    let headers = answer::headers(&state, caller.account_id, settled.position);
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}
