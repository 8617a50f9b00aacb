//! `PATCH /v1/links/{id}`: changes destination and details of a link, and disables or enables it.

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::header::ETAG,
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    batch::{ChangeRequest, LinkChange},
    http::{
        authentication::Caller,
        entity_tag::{self, IfMatch},
        link_body::{LinkBody, LinkParts},
        link_request::LinkPatch,
        request::{
            BODY_LENGTH_MAX, RequestContext, check_accept, check_merge_patch_body, check_no_query,
            link_id,
        },
        route_table,
    },
    id::LinkId,
    link::{ChangeLink, members::parse_patch},
    problem::Problem,
};

use super::{WriteState, answer, body};

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
    security(("api_key" = [Scope::LinksWrite.as_str()])),
)]
pub async fn change_link(
    State(state): State<WriteState>,
    Extension(context): Extension<RequestContext>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let uri = request.uri().clone();
    let change = parse(&state, &context, &caller, request).await?;
    let settled = answer::to_change(&uri, state.queue.submit_change(change).await)?;
    let headers = answer::headers(&state, caller.account_id, settled.position);
    let etag = [(ETAG, entity_tag::of_version(settled.link.version))];
    let parts = LinkParts::of(&settled.link);
    let body = LinkBody::new(parts, &state.short_base_url);
    Ok((headers, etag, Json(body)).into_response())
}

async fn parse(
    state: &WriteState,
    context: &RequestContext,
    caller: &Caller,
    request: Request,
) -> Result<LinkChange, Problem> {
    check_no_query(request.uri())?;
    check_accept(request.headers())?;
    check_merge_patch_body(request.headers())?;
    let (head, body) = request.into_parts();
    let bytes = state
        .bodies
        .read(caller.account_id, body, BODY_LENGTH_MAX)
        .await?;
    let expected_version = entity_tag::expected_version(&head.headers)?;
    let object = body::parse_object(&bytes)?;
    let change = parse_patch(&object, &state.destination_rules).map(|patch| ChangeLink {
        patch,
        expected_version,
    });
    Ok(LinkChange {
        account_id: caller.account_id,
        link_id: link_id(&head.uri).ok(),
        request: ChangeRequest::Patch(change),
        metadata: answer::metadata(context, caller),
    })
}
