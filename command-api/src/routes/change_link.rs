//! `PATCH /v1/links/{id}`: changes destination and details of a link, and disables or enables it.

use axum::{
    Json,
    http::header::ETAG,
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    commands::ChangeRequest,
    id::LinkId,
    link::{ChangeLink, members::parse_patch},
};
use linkledger_http::{
    entity_tag::{self, IfMatch},
    link_body::{LinkBody, LinkParts},
    link_request::LinkPatch,
    problem::Problem,
    request::AcceptedBody,
    route_table,
};

use super::{answer, body, command_request::CommandRequest};

/// Changes destination, details and service of a link. A link with the wanted members stays as it is.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    patch,
    path = route_table::LINK,
    tag = "links",
    summary = "Change a link",
    description = "Takes a JSON merge patch (RFC 7396): `destination_url`, `disabled`, and the details of \
                   the link, which `null` removes. A link that already has the sent values stays \
                   unchanged and keeps its `ETag`. A read without the `Consistency-Token` of the \
                   answer may return the old link for a moment; a read with the token never does.",
    params(("id" = inline(LinkId), Path), IfMatch),
    request_body(content(
        (LinkPatch = "application/merge-patch+json", example = json!(LinkPatch::example())),
        (LinkPatch = "application/json", example = json!(LinkPatch::example())),
    )),
    responses(
        (status = 200, description = "The link after the change.", body = LinkBody,
         headers(("ETag"), ("Consistency-Token")), example = json!(LinkBody::example())),
    ),
    security(("api_key" = [Scope::LinksWrite.name()])),
)]
pub async fn change_link(mut request: CommandRequest) -> Result<Response, Problem> {
    let change = parse(&mut request).await?;
    let change = request.change(change);
    let reply = request.state.queue.submit_change(change).await;
    let settled = answer::changed_link(&request.uri, reply)?;
    let headers = answer::headers(&request, settled.position);
    let etag = [(ETAG, entity_tag::of_version(settled.link.version))];
    let parts = LinkParts::of(&settled.link);
    let body = LinkBody::new(parts, &request.state.short_base_url);
    Ok((headers, etag, Json(body)).into_response())
}

/// Takes the change out of the request, of which little is kept while the change waits for its commit group.
async fn parse(request: &mut CommandRequest) -> Result<ChangeRequest, Problem> {
    let bytes = request.read_body(&AcceptedBody::MERGE_PATCH).await?;
    let expected_version = entity_tag::expected_version(&std::mem::take(&mut request.headers))?;
    let object = body::parse_object(&bytes)?;
    let patch = parse_patch(&object, &request.state.destination_rules);
    Ok(ChangeRequest::Patch(patch.map(|patch| ChangeLink {
        patch,
        expected_version,
    })))
}
