//! `DELETE /v1/links/{id}`: deletes a link for ever.

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    batch::{ChangeRequest, LinkChange},
    http::{
        authentication::Caller,
        entity_tag::{self, IfMatch},
        request::{RequestContext, check_accept, check_no_query, link_id},
        route_table,
    },
    id::LinkId,
    problem::Problem,
};

use super::{WriteState, answer};

/// Deletes a link. Deleting a deleted link has no effect.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    delete,
    path = route_table::LINK,
    tag = "links",
    summary = "Delete a link",
    description = "Deletes a link for ever: the link cannot be read or followed any more, and the slug is \
                   never reused. The price is not refunded. Deleting a deleted link succeeds and has no \
                   effect. A read without the `Consistency-Token` of the answer may return the link for \
                   a moment; a read with the token never does.",
    params(("id" = inline(LinkId), Path), IfMatch),
    responses(
        (status = 204, description = "The link is deleted.", headers(("Consistency-Token"))),
    ),
    security(("api_key" = [Scope::LinksWrite.as_str()])),
)]
pub async fn delete_link(
    State(state): State<WriteState>,
    Extension(context): Extension<RequestContext>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    check_no_query(request.uri())?;
    check_accept(request.headers())?;
    let expected_version = entity_tag::expected_version(request.headers())?;
    let delete = LinkChange {
        account_id: caller.account_id,
        link_id: link_id(request.uri()).ok(),
        request: ChangeRequest::Delete(expected_version),
        metadata: answer::metadata(&context, &caller),
    };
    let settled = answer::to_change(request.uri(), state.queue.submit_change(delete).await)?;
    let headers = answer::headers(&state, caller.account_id, settled.position);
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}
