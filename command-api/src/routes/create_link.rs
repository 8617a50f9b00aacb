//! `POST /v1/links`: creates a link for credits, once per idempotency key.

pub(super) mod idempotency_key;

use axum::{
    Extension,
    extract::{Request, State},
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, ETAG, LOCATION},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    batch::KeyedCreate,
    http::{
        authentication::Caller,
        link_request::LinkCreate,
        request::{BODY_LENGTH_MAX, RequestContext, check_accept, check_json_body, check_no_query},
        route_table,
    },
    link::members::parse_new_link,
    problem::Problem,
};

use super::{WriteState, answer, body};
use crate::renderer::CreatedLink;
use idempotency_key::KeyHeader;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Creates a link and charges its price.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::LINKS,
    tag = "links",
    summary = "Create a link",
    description = "Creates a short link and charges its price in one step: both happen, or neither. \
                   A retry with the same key and body gets the same answer and costs nothing.",
    params((
        "Idempotency-Key" = inline(KeyHeader), Header,
        description = "A UUID: a new UUID for each new link, the same UUID for each retry of a request.",
    )),
    request_body(content = LinkCreate, examples(
        ("generated slug" = (value = json!({ "destination_url": "https://example.com/" }))),
        ("chosen slug" = (value = json!(LinkCreate::example()))),
    )),
    responses(
        (status = 201, description = "The link was created and charged.", body = CreatedLink<'_>,
         headers(("Location"), ("ETag"), ("Consistency-Token"), ("Idempotent-Replayed")),
         links(
             ("get_link" = (operation_id = "get_link", parameters(("id" = "$response.body#/id")))),
             ("change_link" = (operation_id = "change_link",
                                      parameters(("id" = "$response.body#/id")))),
             ("delete_link" = (operation_id = "delete_link", parameters(("id" = "$response.body#/id")))),
         ),
         example = json!(CreatedLink::example())),
    ),
    security(("api_key" = [Scope::LinksWrite.as_str()])),
)]
pub async fn create_link(
    State(state): State<WriteState>,
    Extension(context): Extension<RequestContext>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let create = parse(&state, &context, &caller, request).await?;
    let reply = state.queue.submit_create(create).await;
    let (settled, is_replayed) = answer::to_settled(reply.outcome)?;
    let body = answer::rendered(&settled)?;
    let location = format!("/v1/links/{}", settled.link.link_id);
    let location = HeaderValue::from_str(&location).expect("ids are ASCII");
    let mut headers = answer::headers(&state, caller.account_id, settled.position);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(LOCATION, location);
    // The stream of a link begins with version 1.
    headers.insert(ETAG, HeaderValue::from_static("\"1\""));
    if is_replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok((StatusCode::CREATED, headers, body).into_response())
}

/// Checks the request as far as possible without the database, up to the syntax of the body. Errors
/// in the members of the body are left to the batch: a replay of a used key comes before them.
async fn parse(
    state: &WriteState,
    context: &RequestContext,
    caller: &Caller,
    request: Request,
) -> Result<KeyedCreate, Problem> {
    check_no_query(request.uri())?;
    check_accept(request.headers())?;
    check_json_body(request.headers())?;
    let (head, body) = request.into_parts();
    let bytes = state
        .bodies
        .read(caller.account_id, body, BODY_LENGTH_MAX)
        .await?;
    let key = idempotency_key::parse(&head.headers)?;
    let object = body::parse_object(&bytes)?;
    Ok(KeyedCreate {
        account_id: caller.account_id,
        key_id: caller.key_id,
        key,
        fingerprint: object.fingerprint(),
        body: parse_new_link(&object, &state.destination_rules),
        metadata: answer::metadata(context, caller),
    })
}
