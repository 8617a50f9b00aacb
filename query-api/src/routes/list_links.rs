//! `GET /v1/links`: a page of the account's links, in the order of creation.

mod created;
mod filters;

use axum::response::Response;
use linkledger_core::{api_key::Scope, projection::Projection, shard::Shard};
use linkledger_http::{link_body::LinkBody, problem::Problem, route_table};

use self::filters::{FilterParameters, LinkFilters, ListRead, PARAMETERS, PageOfList};
use super::read_request::ReadRequest;
use crate::{
    consistency::{TokenHeader, VisibilityWait},
    paging::{CURSOR, LIMIT, Page, PageItems, PageRequest},
    parameters::Parameters,
    read_model::{
        SnapshotRead,
        links::{
            LinkView,
            search::{self, FoundLinks},
        },
        read_in_time,
    },
    read_servers::ReadServer,
};

/// Body of the answer, with a name of its own in the OpenAPI document.
type LinkPage = Page<LinkBody>;

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
                   filters and order: a link that exists, and meets the filters, through the whole scan appears \
                   exactly once. A request looks at 10,000 links at most, so a page may be short, even empty, \
                   although `has_more` is true.",
    params(PageRequest, FilterParameters, TokenHeader),
    responses(
        (status = 200, description = "A page of links.", body = LinkPage, headers(("Link")),
         links(
             ("next_page" = (operation_id = "list_links", description = "With the same filters.",
                             parameters(("cursor" = "$response.body#/next_cursor")))),
             ("get_link" = (operation_id = "get_link", parameters(("id" = "$response.body#/items/0/id")))),
         ),
         example = json!({ "items": [LinkBody::example()], "next_cursor": null, "has_more": false })),
    ),
    security(("api_key" = [Scope::LinksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_links(request: ReadRequest) -> Result<Response, Problem> {
    let (api, account_id) = (&request.api, request.account_id);
    let known = [&[LIMIT, CURSOR][..], &PARAMETERS].concat();
    let mut parameters = Parameters::of(&request.uri, &known);
    let page = PageRequest::take(&mut parameters);
    let filters = LinkFilters::take(&mut parameters);
    parameters.check()?;
    let list = request.list(route_table::LINKS, filters.query());
    let page_of_list = PageOfList {
        account_id,
        last: list.start_of(&page)?,
        count_max: page.count_max(),
        now: api.clock.now(),
    };
    let position = request.position_for_json()?;

    let reading = filters.look_up(&api.log, page_of_list).await?;
    let is_search = matches!(reading, ListRead::Search(_));
    let _share = if is_search {
        Some(request.share_of_costly_pages().await?)
    } else {
        None
    };
    let wait = VisibilityWait::begin(&api.watcher, Projection::Links, Shard::of(account_id));
    // Later pages read from the primary: a replica may lag behind the page before. So do searches: a
    // replica would be skipped for all accounts after one slow search.
    let replica = api.read.replica_of(account_id);
    let replica = replica.filter(|_| page_of_list.last.is_none() && !is_search);
    let snapshot = api
        .read
        .read_containing(&wait, replica, position, |server| read(server, &reading))
        .await?;
    let FoundLinks { links, stopped_at } = snapshot.value;
    let items = PageItems {
        items: links,
        stopped_at: stopped_at.map(|link_id| link_id.uuid().as_u128()),
    };
    let body_of = |link: LinkView| link.into_body(&api.short_base_url);
    Ok(list.answer(&page, items, place_of, body_of))
}

/// Reads the links of a page.
async fn read(
    server: &ReadServer,
    reading: &ListRead,
) -> Result<SnapshotRead<FoundLinks>, Problem> {
    match reading {
        ListRead::Whole(range) => {
            let page = server.link_pages.read(*range).await?;
            Ok(page.map(FoundLinks::all))
        }
        ListRead::One(link) => {
            let link = server.links.read(*link).await?;
            Ok(link.map(|link| FoundLinks::all(link.into_iter().collect())))
        }
        ListRead::Search(search) => read_in_time(|| search::find(&server.pool, search)).await,
    }
}

fn place_of(link: &LinkView) -> u128 {
    link.parts.id.uuid().as_u128()
}
