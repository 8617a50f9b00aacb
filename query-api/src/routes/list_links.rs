//! `GET /v1/links`: a page of the account's links, newest first.

mod filters;

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use linkledger_core::{
    api_key::Scope,
    cursor::CursorScope,
    http::{authentication::Caller, link_body::LinkBody, request::check_accept, route_table},
    problem::Problem,
    projection::Projection,
    shard::Shard,
};
use uuid::Uuid;

use self::filters::{DESTINATION_URL, LinkFilters, SLUG};
use super::ApiState;
use crate::{
    consistency::{TokenHeader, VisibilityWait, position_of_consistency_token},
    paging::{CURSOR, LIMIT, Page, PageRequest},
    parameters::Parameters,
    read_model::links::{LinkRange, LinkView},
};

/// Lists links of the account.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::LINKS,
    tag = "links",
    summary = "List links",
    description = "A page of the account's links, newest first. With filters, the page has the links that meet \
                   all filters. While `has_more` is true, pass `next_cursor` as `cursor`, with the same \
                   filters: a link that exists through the whole scan appears exactly once.",
    params(PageRequest, LinkFilters, TokenHeader),
    responses(
        (status = 200, description = "A page of links.", body = Page<LinkBody>, headers(("Link")),
         links(
             ("next_page" = (operation_id = "list_links", description = "With the same filters.",
                             parameters(("cursor" = "$response.body#/next_cursor")))),
             ("get_link" = (operation_id = "get_link", parameters(("id" = "$response.body#/items/0/id")))),
         ),
         example = json!({ "items": [LinkBody::example()], "next_cursor": null, "has_more": false })),
    ),
    security(("api_key" = [Scope::LinksRead.as_str()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_links(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let account_id = caller.account_id;
    let mut parameters = Parameters::of(&uri, &[LIMIT, CURSOR, SLUG, DESTINATION_URL]);
    let page = PageRequest::take(&mut parameters);
    let filters = LinkFilters::take(&mut parameters);
    parameters.check()?;
    let list = api.list(CursorScope {
        list: filters.list(),
        account_id,
    });
    let range = LinkRange {
        account_id,
        before: list.start_of(&page)?.map(Uuid::from_u128),
        count_max: page.count_max(),
    };
    check_accept(&headers)?;
    let position = position_of_consistency_token(&headers, account_id, api.watcher.log_epoch())?;

    let filter = filters.look_up(&api.log).await?;
    let wait = VisibilityWait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    // A later page must not be older than the page before.
    let replica = api.read.replica_of(account_id);
    let replica = replica.filter(|_| range.before.is_none());
    let snapshot = api
        .read
        .read_containing(&wait, replica, position, |server| {
            filter.read(server, range)
        })
        .await?;
    let body_of = |link: LinkView| link.into_body(&api.short_base_url);
    Ok(list.answer(&page, snapshot.value, sort_key_of, body_of))
}

fn sort_key_of(link: &LinkView) -> u128 {
    link.parts.id.uuid().as_u128()
}
