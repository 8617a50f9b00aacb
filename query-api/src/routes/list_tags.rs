//! `GET /v1/tags`: a page of the tags of the account's links, in alphabetical order.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use linkledger_core::{
    api_key::Scope,
    cursor::CursorRefusal,
    http::{authentication::Caller, request::check_accept, route_table},
    link::parse_tag,
    problem::Problem,
    projection::Projection,
    shard::Shard,
};

use super::ApiState;
use crate::{
    consistency::{TokenHeader, VisibilityWait, position_of_consistency_token},
    paging::{Page, PageRequest, invalid_cursor},
    read_model::{
        links::tags::{self, TagCount, TagRange},
        read_in_time,
    },
};

/// Detail of the problem if other costly pages of the account are being read for too long.
pub(super) const SHARE_IN_USE: &str = "Other tags or searches of this account are being read: retry later, \
                                       with fewer requests at a time.";

/// Lists the tags of the account's links. The cursor is the last tag of the page before.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::TAGS,
    tag = "links",
    summary = "List tags",
    description = "A page of the tags that the account's links have, in alphabetical order, each with the number of \
                   its links.",
    params(PageRequest, TokenHeader),
    responses(
        (status = 200, description = "A page of tags.", body = Page<TagCount>, headers(("Link")),
         links(("next_page" = (operation_id = "list_tags",
                               parameters(("cursor" = "$response.body#/next_cursor"))))),
         example = json!({
             "items": [{ "tag": "autumn", "links": 12 }, { "tag": "spring", "links": 4711 }],
             "next_cursor": null,
             "has_more": false,
         })),
    ),
    security(("api_key" = [Scope::LinksRead.as_str()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_tags(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let account_id = caller.account_id;
    let page = PageRequest::of(&uri)?;
    // A cursor is a tag as lists show it.
    let is_issued = |cursor: &str| parse_tag(cursor).is_ok_and(|tag| tag == cursor);
    if !page.cursor.as_deref().is_none_or(is_issued) {
        return Err(invalid_cursor(CursorRefusal::NotIssued));
    }
    let after = page.cursor.clone();
    check_accept(&headers)?;
    let position = position_of_consistency_token(&headers, account_id, api.watcher.log_epoch())?;

    let pages = &api.costly_pages;
    let _share = pages.acquire_in_time(account_id, SHARE_IN_USE).await?;
    let wait = VisibilityWait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    let range = TagRange {
        account_id,
        after: after.unwrap_or_default(),
        count_max: page.count_max(),
    };
    // Never from a replica, which would be skipped for all accounts after one slow page.
    let pool = &api.read.primary().pool;
    let snapshot = wait
        .read_containing(position, || read_in_time(|| tags::list(pool, &range)))
        .await?;
    let mut tags = snapshot.value;
    let next_cursor = page.truncate(&mut tags).map(|tag| tag.tag.clone());
    let list = api.list(route_table::TAGS, String::new(), account_id);
    Ok(list.answer_with_cursor(&page, tags, next_cursor))
}
