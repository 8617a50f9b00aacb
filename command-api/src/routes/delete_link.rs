//! `DELETE /v1/links/{id}`: deletes a link for ever.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use linkledger_core::{api_key::Scope, commands::ChangeRequest, id::LinkId};
use linkledger_http::{
    entity_tag::{self, IfMatch},
    problem::Problem,
    route_table,
};

use super::{answer, command_request::CommandRequest};

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
    security(("api_key" = [Scope::LinksWrite.name()])),
)]
pub async fn delete_link(request: CommandRequest) -> Result<Response, Problem> {
    let expected_version = entity_tag::expected_version(&request.headers)?;
    let delete = request.change(ChangeRequest::Delete(expected_version));
    let reply = request.state.queue.submit_change(delete).await;
    let settled = answer::changed_link(&request.uri, reply)?;
    let headers = answer::headers(&request, settled.position);
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}
