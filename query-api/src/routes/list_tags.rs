//! `GET /v1/tags`: a page of the tags of the account's links, in alphabetical order.

use std::convert::identity;

use axum::response::Response;
use linkledger_core::{api_key::Scope, projection::Projection, shard::Shard};
use linkledger_http::{problem::Problem, route_table};

use super::read_request::ReadRequest;
use crate::{
    consistency::{TokenHeader, VisibilityWait},
    paging::{Page, PageRequest},
    read_model::{
        links::tags::{self, TagCount, TagRange},
        read_in_time,
    },
};

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
    security(("api_key" = [Scope::LinksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_tags(request: ReadRequest) -> Result<Response, Problem> {
    let page = PageRequest::of(&request.uri)?;
    let list = request.list(route_table::TAGS, String::new());
    let after: Option<String> = list.start_of(&page)?;
    let position = request.position_for_json()?;

    let (api, account_id) = (&request.api, request.account_id);
    let _share = request.share_of_costly_pages().await?;
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
