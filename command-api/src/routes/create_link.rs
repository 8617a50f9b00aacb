//! `POST /v1/links`: creates a link for credits, once per idempotency key.

pub(super) mod idempotency_key;

use axum::{
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, ETAG, LOCATION},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    batch::{Created, KeyedCreate},
    http::{link_request::LinkCreate, request::AcceptedBody, route_table},
    link::members::parse_new_link,
    problem::Problem,
};

use super::{answer, body, command_request::CommandRequest};
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
    security(("api_key" = [Scope::LinksWrite.name()])),
)]
pub async fn create_link(mut request: CommandRequest) -> Result<Response, Problem> {
    let bytes = request.read_body(&AcceptedBody::JSON).await?;
    let key = idempotency_key::parse(&request.headers)?;
    let object = body::parse_object(&bytes)?;
    let create = KeyedCreate {
        account_id: request.caller.account_id,
        key_id: request.caller.key_id,
        key,
        fingerprint: object.fingerprint(),
        // Errors in the members are left to the batch: a replay of a used key comes before them.
        body: parse_new_link(&object, &request.state.destination_rules),
        metadata: request.metadata(),
    };
    let reply = request.state.queue.submit_create(create).await;
    let Created { settled, is_replay } = answer::effect(reply)?;
    let body = answer::rendered(&settled)?;
    let location = format!("/v1/links/{}", settled.link.link_id);
    let location = HeaderValue::from_str(&location).expect("ids are ASCII");
    let mut headers = answer::headers(&request, settled.position);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(LOCATION, location);
    // The stream of a link begins with version 1.
    headers.insert(ETAG, HeaderValue::from_static("\"1\""));
    if is_replay {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok((StatusCode::CREATED, headers, body).into_response())
}
