//! `POST /v1/links`: creates a link for credits, once per idempotency key.

use axum::{
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, ETAG, LOCATION},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    commands::{Created, IdempotencyKey, KeyedCreate},
    link::members::parse_new_link,
};
use linkledger_http::{
    link_request::LinkCreate, problem::Problem, request::AcceptedBody, route_table,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

use super::{answer, body, command_request::CommandRequest};
use crate::renderer::CreatedLink;

/// Header with the idempotency key; `docs/api.md#idempotency` describes the effect.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The header `Idempotency-Key` in the OpenAPI document.
///
/// A pattern, and not the format `uuid`, for which generators of clients make a type that is no header.
pub(crate) struct IdempotencyKeyHeader;

/// Regular expression of the header; the quoted form of RFC 9651 is accepted too.
const IDEMPOTENCY_KEY_PATTERN: &str = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$";
const IDEMPOTENCY_KEY_EXAMPLE: &str = "0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0";

impl PartialSchema for IdempotencyKeyHeader {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(IDEMPOTENCY_KEY_PATTERN))
            .examples([IDEMPOTENCY_KEY_EXAMPLE])
            .build()
            .into()
    }
}

impl ToSchema for IdempotencyKeyHeader {}

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
        "Idempotency-Key" = inline(IdempotencyKeyHeader), Header,
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
    let create = parse(&mut request).await?;
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

/// Takes the create out of the request, of which little is kept while the create waits for its commit group: a body of
/// 32 KiB may be some MiB of JSON values.
async fn parse(request: &mut CommandRequest) -> Result<KeyedCreate, Problem> {
    let bytes = request.read_body(&AcceptedBody::JSON).await?;
    let key = parse_idempotency_key(&std::mem::take(&mut request.headers))?;
    let object = body::parse_object(&bytes)?;
    Ok(KeyedCreate {
        account_id: request.caller.account_id,
        key_id: request.caller.key_id,
        key,
        fingerprint: object.fingerprint(),
        // Errors in the members are left to the commit group: a replay of a used key comes before them.
        body: parse_new_link(&object, &request.state.destination_rules),
        metadata: request.metadata(),
    })
}

/// Parses the header `Idempotency-Key`, which must be sent exactly once.
///
/// # Errors
/// Returns `idempotency_key_missing` or `idempotency_key_invalid`.
pub(crate) fn parse_idempotency_key(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Err(Problem::idempotency_key_missing());
    };
    let key = value
        .to_str()
        .ok()
        .filter(|_| values.next().is_none())
        .and_then(IdempotencyKey::parse);
    key.ok_or_else(Problem::idempotency_key_invalid)
}

#[cfg(test)]
mod tests {
    use linkledger_http::problem::Code;

    use super::*;

    fn code(values: &[&[u8]]) -> Result<IdempotencyKey, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        parse_idempotency_key(&headers).map_err(|problem| problem.code)
    }

    #[test]
    fn quotes_and_case_of_key_are_ignored() {
        let key = code(&[b"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0"]).unwrap();
        assert_eq!(code(&[b"0B1C2D3E-4F50-4172-8394-A5B6C7D8E9F0"]), Ok(key));
        assert_eq!(
            code(&[b"\"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0\""]),
            Ok(key)
        );
        assert_eq!(key.stored(), "create:0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0");
    }

    #[test]
    fn missing_repeated_and_malformed_keys_are_rejected() {
        assert_eq!(code(&[]), Err(Code::IdempotencyKeyMissing));
        let one: &[u8] = b"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0";
        for values in [
            &[b"".as_slice()] as &[&[u8]],
            &[b"\"\""],
            &[b"k1"],
            &[b"0b1c2d3e4f5041728394a5b6c7d8e9f0"],
            &[b"{0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0}"],
            &[b"urn:uuid:0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0"],
            &[b"\"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0\";p=1"],
            &[b"\"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0"],
            &[b"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9\xe9"],
            &[one, one],
        ] {
            assert_eq!(code(values), Err(Code::IdempotencyKeyInvalid), "{values:?}");
        }
    }
}
