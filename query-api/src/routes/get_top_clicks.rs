//! `GET /v1/links/{id}/clicks/top` and `GET /v1/clicks/top`: the most frequent values, and the most clicked links.

mod body;
mod request;

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use linkledger_core::{
    api_key::Scope,
    click::Dimension,
    event_store::log::{self, LinkEndState},
    http::{authentication::Caller, route_table},
    id::{AccountId, LinkId},
    problem::Problem,
    projection::Projection,
    shard::Shard,
};

use self::{
    body::{TopItems, TopValue, TopValuesOrLinks},
    request::{ByDimension, ByDimensionOrLink, DimensionOrLink, TopParameters, TopRequest},
};
use super::{ApiState, click_range::answer, get_link::owned_link};
use crate::{
    consistency::{TokenHeader, VisibilityWait},
    read_model::{
        LogPosition,
        clicks::{ClickSubject, TopLinksQuery, TopValuesQuery},
        links::{self, LinkKey, LinkView},
        read_in_time,
    },
};

/// Returns the most frequent values of a link's clicks.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::LINK_TOP_CLICKS,
    tag = "clicks",
    summary = "List the most frequent values of a link's clicks",
    description = "The values of a property with the most clicks of people. Clicks of a deleted link stay readable.",
    params(("id" = inline(LinkId), Path), ByDimension, TopParameters, TokenHeader),
    responses(
        (status = 200, description = "The values.", content(
            (TopItems<TopValue> = "application/json", example = json!({
                "items": [
                    { "value": "DE", "clicks": 9, "visitors": 7 },
                    { "value": null, "clicks": 2, "visitors": 2 },
                ],
                "other": 1,
                "complete_until": "2026-11-20T09:51:00.123Z",
            })),
            (String = "text/csv", example = json!("value,clicks,visitors\r\nDE,9,7\r\n,2,2\r\n")),
        )),
    ),
    security(("api_key" = [Scope::ClicksRead.as_str()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_top_link_clicks(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let request = TopRequest::parse(&api, caller.account_id, &uri, &headers)?;
    let link_id = owned_link(&api, caller.account_id, &uri).await?.link_id;
    let subject = ClickSubject {
        account_id: caller.account_id,
        link_id: Some(link_id),
    };
    answer_values(&api, &request, subject, request.by).await
}

/// Returns the most frequent values of the account's clicks, or its most clicked links.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::TOP_CLICKS,
    tag = "clicks",
    summary = "List the most frequent values of the account's clicks, or its most clicked links",
    description = "The values of a property with the most clicks of people; with `by=link` the links with the most \
                   clicks, deleted links included.",
    params(ByDimensionOrLink, TopParameters, TokenHeader),
    responses(
        (status = 200, description = "The values or links.", content(
            (TopValuesOrLinks = "application/json", example = json!({
                "items": [
                    {
                        "link_id": "lnk_01h455vb4pex5vsknk084sn02q",
                        "short_url": "https://sho.rt/Spring-26",
                        "destination_url": "https://example.com/offers?season=spring",
                        "clicks": 9,
                        "visitors": 7,
                    },
                ],
                "other": 3,
                "complete_until": "2026-11-20T09:51:00.123Z",
            })),
            (String = "text/csv", example = json!("value,clicks,visitors\r\nDE,9,7\r\n,2,2\r\n")),
        )),
    ),
    security(("api_key" = [Scope::ClicksRead.as_str()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_top_clicks(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let account_id = caller.account_id;
    let request = TopRequest::parse(&api, account_id, &uri, &headers)?;
    let subject = ClickSubject {
        account_id,
        link_id: None,
    };
    match request.by {
        DimensionOrLink::Dimension(dimension) => {
            answer_values(&api, &request, subject, dimension).await
        }
        DimensionOrLink::Link => answer_links(&api, &request, account_id).await,
    }
}

async fn answer_values<B>(
    api: &ApiState,
    request: &TopRequest<B>,
    subject: ClickSubject,
    dimension: Dimension,
) -> Result<Response, Problem> {
    let query = TopValuesQuery {
        subject,
        dimension,
        days: request.days.clone(),
        limit: request.limit.into(),
    };
    let body = TopItems::of_values(api.figures.read(&query).await?);
    Ok(answer(request.media_type, &body, &body.items))
}

async fn answer_links(
    api: &ApiState,
    request: &TopRequest<DimensionOrLink>,
    account_id: AccountId,
) -> Result<Response, Problem> {
    let query = TopLinksQuery {
        account_id,
        days: request.days.clone(),
        limit: request.limit.into(),
    };
    let read = api.figures.read(&query).await?;
    let keys: Vec<LinkKey> = read
        .figures
        .items
        .iter()
        .map(|item| LinkKey {
            account_id,
            link_id: item.key,
        })
        .collect();
    let links = find_links(api, account_id, &keys, request.position).await?;
    let body = TopItems::of_links(read, links, &api.short_base_url);
    Ok(answer(request.media_type, &body, &body.items))
}

/// Reads the links of the keys from one snapshot that contains all events up to `position`. If the read table
/// lacks a link, the event store decides: an existing link must not be shown as deleted.
async fn find_links(
    api: &ApiState,
    account_id: AccountId,
    keys: &[LinkKey],
    position: LogPosition,
) -> Result<Vec<Option<LinkView>>, Problem> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let wait = VisibilityWait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    let replica = api.read.replica_of(account_id);
    let found = api
        .read
        .read_containing(&wait, replica, position, |server| {
            read_in_time(|| links::find_together(&server.pool, keys))
        })
        .await?;
    let missing = keys.iter().zip(&found.value);
    let missing = missing.filter_map(|(key, link)| link.is_none().then_some(key.link_id));
    let missing: Vec<LinkId> = missing.collect();
    let Some(created_at) = last_creation(api, account_id, &missing).await? else {
        return Ok(found.value);
    };
    let wait = VisibilityWait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    let from_primary = || read_in_time(|| links::find_together(&api.read.primary().pool, keys));
    let found = wait.read_containing(created_at, from_primary).await?;
    Ok(found.value)
}

/// Returns the position of the last creation of those links that exist; `None` if none exists.
async fn last_creation(
    api: &ApiState,
    account_id: AccountId,
    link_ids: &[LinkId],
) -> Result<Option<LogPosition>, Problem> {
    if link_ids.is_empty() {
        return Ok(None);
    }
    let extents = read_in_time(|| log::link_extents(&api.log, account_id, link_ids)).await?;
    let extents = extents.iter();
    let existing = extents.filter(|extent| extent.end_state != LinkEndState::Deleted);
    let last = existing.map(|extent| extent.created_at).max();
    let epoch = api.watcher.log_epoch();
    Ok(last.map(|position| LogPosition { epoch, position }))
}
