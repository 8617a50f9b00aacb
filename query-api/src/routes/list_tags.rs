//! `GET /v1/tags`: a page of the tags of the account's links, in alphabetical order.

use std::{convert::identity, sync::Arc};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use linkledger_core::{
    api_key::Scope,
    http::{authentication::Caller, request::check_accept, route_table},
    problem::Problem,
    projection::Projection,
    shard::Shard,
};

use super::ApiState;
use crate::{
    consistency::{TokenHeader, VisibilityWait, position_of_consistency_token},
    costly_reads::SHARE_TIME_MAX,
    paging::{Page, PageRequest},
    read_model::{
        links::tags::{self, TagCount, TagRange},
        read_in_time,
    },
};

/// Detail of the problem if other costly pages of the account are being read for too long.
pub(super) const SHARE_IN_USE: &str = "Other tags or searches of this account are being read: retry later, \
                                       with fewer requests at a time.";

/// Body of the answer, with a name of its own in the OpenAPI document.
type TagCountPage = Page<TagCount>;

/// Lists the tags of the account's links.
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
        (status = 200, description = "A page of tags.", body = TagCountPage, headers(("Link")),
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
    let list = api.list(route_table::TAGS, String::new(), account_id);
    let after: Option<String> = list.start_of(&page)?;
    check_accept(&headers)?;
    let position = position_of_consistency_token(&headers, account_id, api.watcher.log_epoch())?;

    let pages = &api.costly_pages;
    let _share = pages
        .acquire_in_time(account_id, SHARE_TIME_MAX, SHARE_IN_USE)
        .await?;
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
    let place_of = |tag: &TagCount| tag.tag.clone();
    Ok(list.answer(&page, snapshot.value.into(), place_of, identity))
}
