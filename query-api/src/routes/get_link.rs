//! `GET /v1/links/{id}`: one link of the account.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{
        HeaderMap, StatusCode, Uri,
        header::{CACHE_CONTROL, ETAG},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    event_store::log::{self, LinkEndState},
    http::{
        authentication::Caller,
        entity_tag::{self, IfNoneMatch},
        link_body::LinkBody,
        request::{check_accept, check_no_query, link_id},
        route_table,
    },
    id::{AccountId, LinkId},
    problem::Problem,
    shard::Shard,
};

use super::{Api, NOT_SHARED};
use crate::{
    checkpoint_watcher::Projection,
    consistency::{TokenHeader, Wait, place_of_token, read_model_behind},
    read_model::{
        Place, available,
        links::{Link, LinkKey},
    },
};

/// Shows a link.
///
/// # Errors
/// The problems of contract §9, in its order of checks.
#[utoipa::path(
    get,
    path = route_table::LINK,
    tag = "links",
    summary = "Read a link",
    description = "Shows a link, also right after its creation was answered.",
    params(
        ("id" = inline(LinkId), Path),
        IfNoneMatch,
        TokenHeader,
    ),
    responses(
        (status = 200, description = "The link.", body = LinkBody, headers(("ETag")),
         example = json!(LinkBody::example())),
        (status = 304, description = "The caller has this version.", headers(("ETag"))),
    ),
    security(("api_key" = [Scope::LinksRead.as_str()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_link(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_no_query(&uri)?;
    check_accept(&headers)?;
    let place = place_of_token(&headers, caller.account_id, api.watcher.log_epoch())?;
    let link_id = link_id(&uri).ok_or_else(Problem::link_not_found)?;
    let link = find(&api, caller.account_id, link_id, place).await?;

    let entity_tag = entity_tag::of_version(link.version);
    let is_known = entity_tag::none_match_fails(&headers, &entity_tag);
    let headers = [(ETAG, entity_tag.as_str()), (CACHE_CONTROL, NOT_SHARED)];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, Json(link.into_body(&api.short_base_url))).into_response())
}

/// The link, from a snapshot that contains everything up to `place`. A miss is judged by the event
/// store: what exists there is never answered with 404.
async fn find(
    api: &Api,
    account_id: AccountId,
    link_id: LinkId,
    place: Place,
) -> Result<Link, Problem> {
    let key = LinkKey {
        account_id,
        link_id,
    };
    let read = || api.links.read(key);
    let wait = Wait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    let mut seen = wait.read_containing(place, &read).await?;
    if seen.value.is_none() {
        let created_at = place_of_existing(api, account_id, link_id).await?;
        if seen.visibility.checkpoint < created_at {
            seen = wait.read_containing(created_at, &read).await?;
        }
    }
    if seen.value.is_none() {
        // It may have been deleted while it was waited for. If not, it exists all the same.
        place_of_existing(api, account_id, link_id).await?;
    }
    seen.value.ok_or_else(read_model_behind)
}

/// Where in the log the link was created.
async fn place_of_existing(
    api: &Api,
    account_id: AccountId,
    link_id: LinkId,
) -> Result<Place, Problem> {
    let extent = available(log::link_extent(&api.pool, account_id, link_id)).await?;
    let extent = extent.ok_or_else(Problem::link_not_found)?;
    match extent.end_state {
        LinkEndState::Deleted => Err(Problem::link_not_found()),
        // Who may not be visited still has an owner.
        LinkEndState::Disabled | LinkEndState::Undetermined => Ok(Place {
            epoch: api.watcher.log_epoch(),
            position: extent.created_at,
        }),
    }
}
