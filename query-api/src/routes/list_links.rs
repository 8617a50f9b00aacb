//! `GET /v1/links`: a page of the account's links, newest first.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{
        HeaderMap, HeaderValue, Uri,
        header::{CACHE_CONTROL, LINK},
    },
    response::{IntoResponse, Response},
};
use linkledger_core::{
    http::{authentication::Caller, request::check_accept, route_table},
    problem::Problem,
    shard::Shard,
};
use serde::Serialize;

use super::{Api, NOT_SHARED};
use crate::{
    checkpoint_watcher::Projection,
    consistency::{Wait, place_of_token},
    cursor::CursorScope,
    link_body::LinkBody,
    paging::{PageRequest, invalid_cursor},
    read_model::{self, Link, LinkRange},
};

#[derive(Serialize)]
struct Page {
    items: Vec<LinkBody>,
    next_cursor: Option<String>,
    has_more: bool,
}

/// Lists links.
///
/// # Errors
/// The problems of contract §9, in its order of checks.
#[tracing::instrument(skip_all)]
pub(super) async fn list_links(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let account_id = caller.account_id;
    let scope = CursorScope {
        endpoint: route_table::LINKS,
        account_id,
    };
    let PageRequest { limit, cursor } = PageRequest::parse(&uri)?;
    let open = |cursor: String| {
        api.cursor_keys
            .open(scope, &cursor)
            .ok_or_else(invalid_cursor)
    };
    let before = cursor.map(open).transpose()?;
    check_accept(&headers)?;
    let place = place_of_token(&headers, account_id, api.watcher.log_epoch())?;

    let range = LinkRange {
        account_id,
        before,
        // One more than is shown tells whether there are more.
        count_max: i64::from(limit) + 1,
    };
    let wait = Wait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    let seen = wait
        .read_containing(place, || read_model::links(&api.pool, range))
        .await?;

    Ok(answer(&api, scope, limit, seen.value))
}

/// The page of the first `limit` of these links.
fn answer(api: &Api, scope: CursorScope, limit: u8, mut links: Vec<Link>) -> Response {
    let has_more = links.len() > usize::from(limit);
    links.truncate(limit.into());
    let next_cursor = links
        .last()
        .filter(|_| has_more)
        .map(|last| api.cursor_keys.seal(scope, last.id.uuid()));
    let next_page = next_cursor.as_ref().map(|cursor| {
        let base_url = &api.base_url;
        format!(
            "<{base_url}{}?limit={limit}&cursor={cursor}>; rel=\"next\"",
            route_table::LINKS
        )
    });
    let page = Page {
        items: links
            .into_iter()
            .map(|link| LinkBody::of(link, &api.short_base_url))
            .collect(),
        next_cursor,
        has_more,
    };
    let mut response = ([(CACHE_CONTROL, NOT_SHARED)], Json(page)).into_response();
    if let Some(next_page) = next_page {
        let next_page = HeaderValue::from_str(&next_page).expect("addresses and cursors are ASCII");
        response.headers_mut().insert(LINK, next_page);
    }
    response
}
