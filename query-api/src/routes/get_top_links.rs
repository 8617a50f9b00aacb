//! `GET /v1/clicks/top-links`: the most clicked links of the account.

use axum::response::Response;
use linkledger_clicks::{
    top::DayRequest,
    value_statistics::{Top, TopItem},
};
use linkledger_core::{
    api_key::Scope,
    id::{AccountId, LinkId},
    projection::Projection,
    shard::Shard,
};
use linkledger_event_store::log::{self, LinkEndState};
use linkledger_http::{problem::Problem, route_table};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ApiState,
    click_range::answer,
    clicks_csv::CsvRow,
    ranking::{PARAMETERS, Ranking, RankingParameters, RankingRequest},
    read_request::ReadRequest,
};
use crate::{
    consistency::{TokenHeader, VisibilityWait},
    parameters::Parameters,
    read_model::{
        LogPosition,
        clicks::TopLinksQuery,
        links::{self, LinkKey, LinkView},
        read_in_time,
    },
    statistics_reads::CompleteStatistics,
};

/// Body of the answer, with a name of its own in the OpenAPI document.
type TopLinks = Ranking<TopLink>;

/// Link with its clicks.
#[derive(Serialize, ToSchema)]
struct TopLink {
    #[schema(inline)]
    link_id: LinkId,
    /// Null for a deleted link.
    #[schema(required, format = "uri")]
    short_url: Option<String>,
    /// Null for a deleted link.
    #[schema(required)]
    destination_url: Option<String>,
    /// Clicks of people.
    clicks: u64,
    /// Estimated distinct visitors of each UTC day, added over days.
    visitors: u64,
}

impl CsvRow for TopLink {
    const COLUMNS: &'static [&'static str] = &[
        "link_id",
        "short_url",
        "destination_url",
        "clicks",
        "visitors",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.link_id.to_string(),
            self.short_url.clone().unwrap_or_default(),
            self.destination_url.clone().unwrap_or_default(),
            self.clicks.to_string(),
            self.visitors.to_string(),
        ]
    }
}

/// Returns the most clicked links of the account.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::TOP_LINKS,
    tag = "clicks",
    summary = "List the most clicked links of the account",
    description = "The links with the most clicks of people, deleted links included. With the header \
                   `Accept: text/csv` the items as CSV.",
    params(RankingParameters, TokenHeader),
    responses(
        (status = 200, description = "The links.", body = TopLinks, example = json!({
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
    ),
    security(("api_key" = [Scope::ClicksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_top_links(request: ReadRequest) -> Result<Response, Problem> {
    let (api, account_id) = (&request.api, request.account_id);
    let parameters = Parameters::of(&request.uri, &PARAMETERS);
    let ranking = RankingRequest::parse(&request, parameters, DayRequest::days)?;
    let query = TopLinksQuery {
        account_id,
        days: ranking.days.clone(),
        limit: ranking.limit.into(),
    };
    let read = api.statistics.read(&query).await?;
    let key_of = |item: &TopItem<LinkId>| LinkKey {
        account_id,
        link_id: item.key,
    };
    let keys: Vec<LinkKey> = read.statistics.items.iter().map(key_of).collect();
    let links = find_links(api, account_id, &keys, ranking.position).await?;
    let body = of_links(&read, links, &api.short_base_url);
    Ok(answer(ranking.media_type, &body, &body.items))
}

/// Joins the links to their addresses. A deleted link has no address.
fn of_links(
    read: &CompleteStatistics<Top<LinkId>>,
    links: Vec<Option<LinkView>>,
    short_base_url: &str,
) -> TopLinks {
    let items = read.statistics.items.iter().zip(links);
    let items = items.map(|(item, link)| {
        let link = link.map(|link| link.parts);
        TopLink {
            link_id: item.key,
            short_url: link
                .as_ref()
                .map(|link| format!("{short_base_url}/{}", link.slug)),
            destination_url: link.map(|link| link.destination_url),
            clicks: item.clicks,
            visitors: item.visitors,
        }
    });
    Ranking::new(items.collect(), read.statistics.other, read)
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
