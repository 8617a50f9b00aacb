//! `POST /v1/links`: creates a link, once per key, for credits.

mod body;
mod idempotency_key;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    batch::{KeyedCreate, SettledCreate},
    consistency::ConsistencyToken,
    envelope::Metadata,
    http::{
        authentication::Caller,
        request::{
            BODY_LENGTH_MAX, RequestContext, check_accept, check_json_body, check_no_query,
            content_too_large,
        },
        route_table,
    },
    json::{JsonError, JsonObject},
    link::OwnHosts,
    problem::{Code, Problem},
};

use super::AppState;
use crate::{
    command_queue::{Refusal, Reply},
    renderer::{self, CreatedLinkV1},
};
use body::NewLink;
use idempotency_key::KeyHeader;

const CONSISTENCY_TOKEN: HeaderName = HeaderName::from_static("consistency-token");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Creates a link.
///
/// # Errors
/// The problems of contract §9, in its order of checks.
#[utoipa::path(
    post,
    path = route_table::LINKS,
    tag = "links",
    summary = "Create a link",
    description = "Creates a short link and charges its price in one step: both happen, or neither. \
                   Sent again with the same key and body, it gets the same answer and costs nothing.",
    params((
        "Idempotency-Key" = inline(KeyHeader), Header,
        description = "A UUID: a new one for each new link, the same one for each repetition of a request.",
    )),
    request_body(content = NewLink, examples(
        ("drawn slug" = (value = json!({ "destination_url": "https://example.com/" }))),
        ("own slug" = (value = json!({
            "destination_url": "https://example.com/offers?season=spring", "slug": "Spring-26",
        }))),
    )),
    responses(
        (status = 201, description = "The link was created and charged.", body = CreatedLinkV1<'_>,
         headers(("Location"), ("ETag"), ("Consistency-Token"), ("Idempotent-Replayed")),
         links(("get_link" = (operation_id = "get_link", parameters(("id" = "$response.body#/id"))))),
         example = json!({
             "id": "lnk_01h455vb4pex5vsknk084sn02q",
             "short_url": "https://sho.rt/Spring-26",
             "destination_url": "https://example.com/offers?season=spring",
             "created_at": "2026-11-20T09:51:00.123Z",
             "credits_charged": 1,
             "credits_balance": 999,
         })),
    ),
    security(("api_key" = [Scope::LinksWrite.as_str()])),
)]
pub async fn create_link(
    State(state): State<AppState>,
    Extension(context): Extension<RequestContext>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let create = parse(&state.own_hosts, &context, &caller, request).await?;
    let reply = state.queue.submit(create).await;
    let (settled, is_replayed) = match reply {
        Reply::Created(settled) => (settled, false),
        Reply::Replayed(settled) => (settled, true),
        Reply::Refused(refusal) => return Err(problem(&refusal)),
    };
    let token = ConsistencyToken {
        epoch: state.log_epoch,
        account_id: caller.account_id,
        position: settled.position,
    };
    answer(&settled, &token, is_replayed)
}

/// Everything that can be checked without the database, up to the syntax of the body. What is
/// wrong with its fields is left to the batch: a used key is answered all the same.
async fn parse(
    own_hosts: &OwnHosts,
    context: &RequestContext,
    caller: &Caller,
    request: Request,
) -> Result<KeyedCreate, Problem> {
    check_no_query(request.uri())?;
    check_accept(request.headers())?;
    check_json_body(request.headers())?;
    let (head, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, BODY_LENGTH_MAX)
        .await
        .map_err(|error| {
            if is_length_limit(&error) {
                return content_too_large();
            }
            Problem::new(
                Code::MalformedJson,
                "The body ended before it was complete.",
            )
        })?;
    let key = idempotency_key::parse(&head.headers)?;
    let object = JsonObject::parse(&bytes).map_err(|error| match error {
        JsonError::Malformed => Problem::new(
            Code::MalformedJson,
            "Send one JSON object in UTF-8: no duplicate members, no byte order mark.",
        ),
        JsonError::NotAnObject => Problem::new(Code::BodyNotObject, "Send a JSON object: {…}."),
    })?;
    Ok(KeyedCreate {
        account_id: caller.account_id,
        key,
        fingerprint: object.fingerprint(),
        body: body::parse(&object, own_hosts),
        metadata: Metadata {
            actor: Some(caller.key_id.to_string()),
            request_id: Some(context.request_id.clone()),
            traceparent: Some(context.traceparent.clone()),
            ..Metadata::default()
        },
    })
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn answer(
    settled: &SettledCreate,
    token: &ConsistencyToken,
    is_replayed: bool,
) -> Result<Response, Problem> {
    let body = renderer::render(settled).ok_or_else(|| {
        tracing::error!(
            renderer = settled.renderer,
            "unknown renderer; use a later release"
        );
        Problem::internal()
    })?;
    let value = |text: String| HeaderValue::from_str(&text).expect("ids and tokens are ASCII");
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        LOCATION,
        value(format!("/v1/links/{}", settled.link.link_id)),
    );
    // A link's stream begins with version 1.
    headers.insert(ETAG, HeaderValue::from_static("\"1\""));
    headers.insert(CONSISTENCY_TOKEN, value(token.encode()));
    if is_replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok((StatusCode::CREATED, headers, Body::from(body)).into_response())
}

fn problem(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::KeyReused => Problem::new(
            Code::IdempotencyKeyReused,
            "This Idempotency-Key was used with another body; a different link needs a new key.",
        ),
        Refusal::Invalid(errors) => Problem::validation_failed(errors),
        Refusal::SlugTaken => Problem::new(
            Code::SlugTaken,
            "Choose another slug, or leave it out to get one.",
        ),
        Refusal::InsufficientCredits { balance, required } => Problem::new(
            Code::InsufficientCredits,
            format!("The price in credits is {required}; the balance is {balance}."),
        )
        .with("balance", *balance)
        .with("required", *required),
        Refusal::Overloaded => {
            Problem::new(Code::Overloaded, "Nothing was done; try again shortly.").retry_after(1)
        }
        Refusal::StorageUnavailable => Problem::storage_unavailable(),
        Refusal::OutcomeUnknown => Problem::new(
            Code::DeadlineExceeded,
            "The link may have been created; send the same request with the same key again.",
        )
        .with("may_have_succeeded", true)
        .retry_after(1),
        Refusal::KeyInUse => Problem::new(
            Code::IdempotencyKeyInUse,
            "The first request with this key is still running; send it again shortly.",
        )
        .retry_after(1),
        Refusal::Failed => Problem::internal(),
    }
}
