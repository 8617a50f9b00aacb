//! `GET /v1/links/{id}`: one link of the account, as it is or as it was at an instant.

use axum::{
    Json,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, ETAG},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope, clock::to_millisecond, id::LinkId, projection::Projection, shard::Shard,
    timestamp,
};
use linkledger_event_store::log::{self, LinkEndState, LinkExtent};
use linkledger_http::{
    entity_tag::{self, IfNoneMatch},
    link_body::{LinkBody, LinkParts},
    problem::{Code, Problem},
    request::link_id,
    route_table,
};
use time::OffsetDateTime;
use utoipa::IntoParams;

use super::{ApiState, read_request::ReadRequest};
use crate::{
    cache_control::NOT_SHARED,
    consistency::{TokenHeader, VisibilityWait},
    history_reads::unreadable,
    parameters::{ParameterError, Parameters, parse_instant},
    read_model::{
        LogPosition,
        links::{LinkKey, LinkRead, LinkView},
        read_in_time,
    },
};

const AT: &str = "at";

/// Parameter in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct InstantParameter {
    /// Instant in the past, or a date: the begin of its UTC day. 404 before the creation and from the deletion on.
    #[param(format = "instant-or-date")]
    at: Option<String>,
}

fn parse_past_instant(text: &str, now: OffsetDateTime) -> Result<OffsetDateTime, ParameterError> {
    let at = parse_instant(AT, text)?;
    if at <= now {
        return Ok(at);
    }
    let detail = format!(
        "Send {AT} as an instant that has passed; the clock of the service shows {}.",
        timestamp::format(now)
    );
    Err(ParameterError::new("time_in_the_future", detail))
}

/// Returns a link of the account.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::LINK,
    tag = "links",
    summary = "Read a link",
    description = "Returns a link, also right after the answer to its creation. With `at`, returns the link as it was \
                   at that instant, also if the link was deleted since.",
    params(
        ("id" = inline(LinkId), Path),
        InstantParameter,
        IfNoneMatch,
        TokenHeader,
    ),
    responses(
        (status = 200, description = "The link.", body = LinkBody, headers(("ETag")),
         example = json!(LinkBody::example())),
        (status = 304, description = "The link has not changed since the version in `If-None-Match`.", headers(("ETag"))),
    ),
    security(("api_key" = [Scope::LinksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_link(request: ReadRequest) -> Result<Response, Problem> {
    let api = &request.api;
    let mut parameters = Parameters::of(&request.uri, &[AT]);
    let at = parameters.take(AT, |text| parse_past_instant(text, api.clock.now()));
    parameters.check()?;
    let position = request.position_for_json()?;
    let link = if let Some(at) = at {
        // Every committed write is in the event store: a token needs no wait.
        find_at(api, owned_link(&request).await?, at).await?
    } else {
        find(&request, position).await?
    };

    let entity_tag = entity_tag::of_version(link.version);
    let is_not_modified = entity_tag::if_none_match_names(&request.headers, &entity_tag);
    let headers = [(ETAG, entity_tag.as_str()), (CACHE_CONTROL, NOT_SHARED)];
    if is_not_modified {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, Json(link.into_body(&api.short_base_url))).into_response())
}

/// Reads the link that the path names from a snapshot that contains all events up to `position`. If the read table
/// lacks the link, the event store decides: an existing link must not get 404.
pub(super) async fn find(
    request: &ReadRequest,
    position: LogPosition,
) -> Result<LinkView, Problem> {
    let (api, key) = (&request.api, key(request)?);
    let account_id = key.account_id;
    let [first_read, later_read] =
        [position != LogPosition::BEGINNING, true].map(|with_visibility| LinkRead {
            key,
            with_visibility,
        });
    let wait = VisibilityWait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    let replica = api.read.replica_of(account_id);
    let mut snapshot = api
        .read
        .read_containing(&wait, replica, position, |server| {
            server.links.read(first_read)
        })
        .await?;
    if snapshot.value.is_none() {
        let created_at = position_of_creation(api, key).await?;
        let from_primary = || api.read.primary().links.read(later_read);
        snapshot = wait.read_containing(created_at, from_primary).await?;
    }
    if snapshot.value.is_none() {
        // Called for its error: 404 if the link was deleted during the wait. Otherwise the link
        // exists, and the read table lags behind.
        position_of_creation(api, key).await?;
    }
    snapshot.value.ok_or_else(Problem::read_model_behind)
}

/// Returns the link that the path names, deleted links included. The event store decides.
///
/// # Errors
/// Returns `link_not_found` if the account never had such a link.
pub(super) async fn owned_link(request: &ReadRequest) -> Result<LinkKey, Problem> {
    let key = key(request)?;
    extent(&request.api, key).await?;
    Ok(key)
}

fn key(request: &ReadRequest) -> Result<LinkKey, Problem> {
    Ok(LinkKey {
        account_id: request.account_id,
        link_id: link_id(&request.uri)?,
    })
}

/// Finds the link in the event store.
///
/// # Errors
/// Returns `link_not_found` if the account never had such a link.
async fn extent(api: &ApiState, key: LinkKey) -> Result<LinkExtent, Problem> {
    let extent = read_in_time(|| log::link_extent(&api.log, key.account_id, key.link_id)).await?;
    extent.ok_or_else(Problem::link_not_found)
}

/// Reads the link as the last event that was recorded by `at` left it.
///
/// # Errors
/// Returns `link_not_found` before the creation and from the deletion on, `read_model_behind` if a later release wrote
/// the event, and the problems of reading.
async fn find_at(api: &ApiState, key: LinkKey, at: OffsetDateTime) -> Result<LinkView, Problem> {
    let event = api.histories.last_event_at(key, at).await?;
    let event = event.ok_or_else(|| no_link_at(at))?;
    let link = event
        .link_after()
        .map_err(|error| unreadable(key, &error))?;
    // After a jump of a clock a later event can have an earlier time than the creation.
    if link.state.deleted || to_millisecond(link.state.created_at) > at {
        return Err(no_link_at(at));
    }
    Ok(LinkView {
        version: link.version,
        parts: LinkParts::of(&link),
    })
}

/// Returns the problem of a link that the account had only later, or until an earlier instant.
fn no_link_at(at: OffsetDateTime) -> Problem {
    let at = timestamp::format(at);
    let detail =
        format!("The link did not exist at {at}: it was created later, or deleted before.");
    Problem::new(Code::LinkNotFound, detail)
}

/// Returns the position at which the link was created.
///
/// # Errors
/// Returns `link_not_found` if the account has no such link, or if the link is deleted.
async fn position_of_creation(api: &ApiState, key: LinkKey) -> Result<LogPosition, Problem> {
    let extent = extent(api, key).await?;
    match extent.end_state {
        LinkEndState::Deleted => Err(Problem::link_not_found()),
        // The owner can still read a disabled link.
        LinkEndState::Disabled | LinkEndState::Undetermined => Ok(LogPosition {
            epoch: api.watcher.log_epoch(),
            position: extent.created_at,
        }),
    }
}
