//! `GET /admin/v1/links/{link_id}/events`: a page of the events of a link of any account, newest first.

use axum::response::Response;
use linkledger_core::{api_key::AdminScope, event::Subject, id::LinkId, shard::Shard};
use linkledger_event_store::{
    links,
    log::{ListedEvent, StreamPart, list_stream_backwards},
};
use linkledger_http::{
    problem::Problem, request::admin_link_id, route_table, storage::read_in_time,
};
use serde_json::{Value, json};

use super::{admin_request::AdminRequest, event_body::EventBody};
use crate::paging::{Page, PageRequest};

/// Body of the answer, with a name of its own in the OpenAPI document.
type EventPage = Page<EventBody>;

/// Lists the events of a link, newest first.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_LINK_EVENTS,
    tag = "events",
    summary = "List the events of a link",
    description = "A page of the events of a link of any account, newest first. Also of a deleted link.",
    params(("link_id" = inline(LinkId), Path), PageRequest),
    responses(
        (status = 200, description = "A page of events.", body = EventPage, headers(("Link")),
         links(("next_page" = (operation_id = "list_link_events",
                               parameters(("cursor" = "$response.body#/next_cursor"))))),
         example = json!({ "items": [example()], "next_cursor": null, "has_more": false })),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_link_events(request: AdminRequest) -> Result<Response, Problem> {
    let page = PageRequest::of(&request.uri)?;
    let list = request.list(String::new());
    let before: Option<i64> = list.start_of(&page)?;
    request.check_accept()?;
    let link_id = admin_link_id(&request.uri)?;
    let owner = read_in_time(|| links::find_owner(request.log(), link_id)).await?;
    let account_id = owner.ok_or_else(Problem::link_of_no_account)?;

    let (shard, subject) = (Shard::of(account_id), Subject::Link(link_id));
    let mut part = StreamPart::newest(shard, subject, page.count_max());
    part.before = before.unwrap_or(part.before);
    let events = read_in_time(|| list_stream_backwards(request.log(), &part)).await?;
    let place_of = |listed: &ListedEvent| listed.event.version;
    Ok(list.answer(&page, events.into(), place_of, EventBody::of))
}

/// Returns an event of a link for the OpenAPI document.
fn example() -> Value {
    let mut event = EventBody::example();
    event["type"] = "LinkDisabled".into();
    event["subject"] = "lnk_01h455vb4pex5vsknk084sn02q".into();
    event["payload"] = json!({
        "link_id": event["subject"],
        "account_id": event["account_id"],
        "reason": "phishing",
        "by": "operator",
        "disabled_by": "operator",
    });
    event
}
