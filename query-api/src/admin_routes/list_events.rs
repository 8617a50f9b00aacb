//! `GET /admin/v1/events` and `GET /admin/v1/accounts/{account_id}/events`: pages of the log, oldest first, of all
//! accounts or of one; and the last page.

use axum::{
    Json,
    http::header::{CACHE_CONTROL, LINK},
    response::{IntoResponse, Response},
};
use linkledger_core::{api_key::AdminScope, event::CATALOGUE, shard::Shard};
use linkledger_http::{problem::Problem, route_table};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    admin_request::AdminRequest,
    event_body::EventBody,
    event_pages::{self, EventsOnPage, WantedEvents, WantedPage},
};
use crate::{
    cache_control::NOT_SHARED,
    paging::{LIMIT, PageRequest, Paginator, of_parameter},
    parameters::{Parameters, parse_name},
};

const TYPE: &str = "type";
const AFTER: &str = "after";
const LATEST: &str = "latest";
/// The only value of [`LATEST`].
const TRUE: &str = "true";

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct EventParameters {
    /// Only events of this type.
    #[param(rename = "type", example = "CreditsGranted")]
    event_type: Option<String>,
    /// `next_cursor` of the page before, as it is; the first page needs none.
    #[param(format = "cursor")]
    after: Option<String>,
    /// The newest events of the log instead of the oldest; not together with `after`.
    #[param(inline)]
    latest: Option<LatestValue>,
    /// Most events on the page.
    #[param(minimum = 1, maximum = 100, default = 50)]
    limit: Option<u8>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum LatestValue {
    True,
}

/// A page of the log.
#[derive(Serialize, ToSchema)]
struct LogPage {
    items: Vec<EventBody>,
    /// Place after the page, also of the last one: later events follow it.
    next_cursor: String,
    /// True if the log has events after the page. They may be others than those asked for.
    has_more: bool,
}

/// Parameters of a request.
struct EventsRequest {
    event_type: Option<String>,
    page: PageRequest,
    /// True for the last page of the log.
    is_latest: bool,
}

impl EventsRequest {
    fn of(request: &AdminRequest) -> Result<Self, Problem> {
        let mut parameters = Parameters::of(&request.uri, &[TYPE, AFTER, LATEST, LIMIT]);
        let types: Vec<&str> = CATALOGUE.iter().map(|(name, _)| *name).collect();
        let of_name = |text: &str| types.contains(&text).then(|| text.to_owned());
        let event_type = parameters.take(TYPE, |text| parse_name(text, of_name, &types));
        let page = PageRequest::take_after(&mut parameters, AFTER);
        let is_true = |text: &str| (text == TRUE).then_some(());
        let latest = parameters.take(LATEST, |text| parse_name(text, is_true, &[TRUE]));
        parameters.check()?;
        let is_latest = latest.is_some();
        if is_latest && page.cursor.is_some() {
            let detail = "Send either latest or after: the last page follows no cursor.";
            return Err(Problem::invalid_parameter(LATEST, "not_with_after", detail));
        }
        Ok(Self {
            event_type,
            page,
            is_latest,
        })
    }

    /// Returns the page of the list that is asked for.
    ///
    /// # Errors
    /// Returns `invalid_cursor`.
    fn page_of(&self, list: &Paginator<'_>) -> Result<WantedPage, Problem> {
        if self.is_latest {
            return Ok(WantedPage::Last);
        }
        let place = list.start_of(&self.page).map_err(of_after)?;
        Ok(WantedPage::After(place))
    }

    /// Returns the filter as a query in canonical form.
    fn filters(&self) -> String {
        let filter = self.event_type.as_ref();
        filter.map_or_else(String::new, |event_type| format!("{TYPE}={event_type}"))
    }
}

/// Lists the events of an account, of its links and its keys.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_ACCOUNT_EVENTS,
    tag = "events",
    summary = "List the events of an account",
    description = "A page of the events of the account, of its links and its keys, oldest first, in the order of the \
                   log. A request looks at 16,000 events of all accounts at most, so a page may be short, even empty, \
                   although `has_more` is true. `next_cursor` of the last page leads to later events. With `latest` \
                   the answer is the last page at once: the newest events, still oldest first.",
    params(("account_id" = String, Path, description = "Id of the account."), EventParameters),
    responses(
        (status = 200, description = "A page of events.", body = LogPage, headers(("Link")),
         example = json!({ "items": [EventBody::example()], "next_cursor": "AeOwxEKY_BwU", "has_more": false })),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_account_events(request: AdminRequest) -> Result<Response, Problem> {
    let wanted = EventsRequest::of(&request)?;
    let list = request.list_of_account(wanted.filters());
    let page = wanted.page_of(&list)?;
    request.check_accept()?;
    let account_id = request.account().await?.account.account_id;

    let of_account = WantedEvents {
        shards: vec![Shard::of(account_id)],
        account_id: Some(account_id),
        event_type: wanted.event_type,
        limit: wanted.page.limit,
    };
    let page = event_pages::read(request.log(), &of_account, page).await;
    Ok(answer(&list, of_account.limit, page.map_err(of_after)?))
}

/// Lists the events of all accounts.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_EVENTS,
    tag = "events",
    summary = "List the events of all accounts",
    description = "A page of the events of the log, oldest first. Events of one account are in its order; those of \
                   different accounts are ordered by time, as far as a page goes. With a `type`, a request looks at \
                   16,000 events at most, so a page may be short, even empty, although `has_more` is true. \
                   `next_cursor` of the last page leads to later events. With `latest` the answer is the last page \
                   at once: the newest events, still oldest first.",
    params(EventParameters),
    responses(
        (status = 200, description = "A page of events.", body = LogPage, headers(("Link")),
         example = json!({ "items": [EventBody::example()], "next_cursor": "AeOwxEKY_BwU", "has_more": false })),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_events(request: AdminRequest) -> Result<Response, Problem> {
    let wanted = EventsRequest::of(&request)?;
    let list = request.list(wanted.filters());
    let page = wanted.page_of(&list)?;
    request.check_accept()?;

    let of_all = WantedEvents {
        shards: Shard::all().collect(),
        account_id: None,
        event_type: wanted.event_type,
        limit: wanted.page.limit,
    };
    let page = event_pages::read(request.log(), &of_all, page).await;
    Ok(answer(&list, of_all.limit, page.map_err(of_after)?))
}

/// Names the parameter of the cursor in a problem of the cursor.
fn of_after(problem: Problem) -> Problem {
    of_parameter(AFTER, problem)
}

fn answer(list: &Paginator<'_>, limit: u8, page: EventsOnPage) -> Response {
    let next_cursor = list.scope.cursor_after(&page.next);
    let next_page = list.link_to(limit, AFTER, &next_cursor);
    let body = LogPage {
        items: page.events.into_iter().map(EventBody::of).collect(),
        next_cursor,
        has_more: page.has_more,
    };
    let mut response = ([(CACHE_CONTROL, NOT_SHARED)], Json(body)).into_response();
    if page.has_more {
        response.headers_mut().insert(LINK, next_page);
    }
    response
}
