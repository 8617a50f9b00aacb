//! `GET /v1/links/{id}/history`: a page of the events of a link, newest first. The event store answers.

use std::convert::identity;

use axum::response::Response;
use linkledger_core::{
    api_key::Scope,
    envelope::{OPERATOR, RecordedEvent},
    event::DecodeError,
    id::{AdminKeyId, LinkId},
    link_history::changes,
    timestamp,
};
use linkledger_http::{openapi::Timestamp, problem::Problem, route_table};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{get_link::owned_link, read_request::ReadRequest};
use crate::{
    consistency::TokenHeader,
    history_reads::unreadable,
    paging::{Page, PageRequest},
};

/// Event of a link, as its owner sees it.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryEntry {
    /// Version of the link right after the event: its `ETag` without quotes.
    #[schema(minimum = 1)]
    version: i64,
    /// Type of the event, such as `LinkCreated`; later releases can add others.
    #[serde(rename = "type")]
    event_type: String,
    #[serde(serialize_with = "timestamp::serialize")]
    #[schema(inline, value_type = Timestamp)]
    at: time::OffsetDateTime,
    /// Id of the API key that made the change, or `operator`; null if it is not on record.
    #[schema(required)]
    by: Option<String>,
    /// The members of the link that the event changed, each with its values before and after. Null means no value;
    /// before the creation all values are null.
    #[schema(value_type = HashMap<String, Change>)]
    changes: Map<String, Value>,
}

/// Values of a member before and after a change; null means no value.
#[derive(ToSchema)]
#[schema(as = MemberChange)]
#[expect(dead_code, reason = "only its schema is used")]
struct Change {
    from: Value,
    to: Value,
}

/// Body of the answer, with a name of its own in the OpenAPI document.
type HistoryEntryPage = Page<HistoryEntry>;

/// Lists the events of a link, newest first.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::LINK_HISTORY,
    tag = "links",
    summary = "Read the history of a link",
    description = "A page of the events of a link, newest first: when, by whom and which members of the link were \
                   changed. Also of a deleted link.",
    params(("id" = inline(LinkId), Path), PageRequest, TokenHeader),
    responses(
        (status = 200, description = "A page of events.", body = HistoryEntryPage, headers(("Link")),
         example = json!({
             "items": [
                 {
                     "version": 2,
                     "type": "LinkDestinationChanged",
                     "at": "2026-11-21T08:00:00.000Z",
                     "by": "key_01h455vb4pex5vsknk084sn02r",
                     "changes": { "destination_url": {
                         "from": "https://example.com/offers?season=spring",
                         "to": "https://example.com/offers?season=summer",
                     } },
                 },
                 {
                     "version": 1,
                     "type": "LinkCreated",
                     "at": "2026-11-20T09:51:00.123Z",
                     "by": "key_01h455vb4pex5vsknk084sn02r",
                     "changes": { "destination_url": {
                         "from": null,
                         "to": "https://example.com/offers?season=spring",
                     } },
                 },
             ],
             "next_cursor": null,
             "has_more": false,
         })),
    ),
    security(("api_key" = [Scope::LinksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_link_history(request: ReadRequest) -> Result<Response, Problem> {
    let page = PageRequest::of(&request.uri)?;
    let list = request.list(request.uri.path(), String::new());
    let before = list.start_of(&page)?;
    // Every committed write is in the event store: a token needs no wait.
    request.position_for_json()?;
    let link = owned_link(&request).await?;

    let histories = &request.api.histories;
    let events = histories.events(link, before, page.count_max()).await?;
    let entries = entries(&events).map_err(|error| unreadable(link, &error))?;
    let place_of = |entry: &HistoryEntry| entry.version;
    Ok(list.answer(&page, entries.into(), place_of, identity))
}

/// Returns the actor of an event as owners see it: the admin keys of the operators are not theirs to know.
fn shown_to_owner(actor: &str) -> String {
    let is_admin_key = actor.starts_with(AdminKeyId::PREFIX);
    let shown = if is_admin_key { OPERATOR } else { actor };
    shown.to_owned()
}

/// Returns the entries of events, newest first. The event before each one must follow it, or there is none; the last
/// event of a longer history is on the next page, and its entry is not shown.
fn entries(events: &[RecordedEvent]) -> Result<Vec<HistoryEntry>, DecodeError> {
    let links: Vec<_> = events
        .iter()
        .map(RecordedEvent::link_after)
        .collect::<Result<_, _>>()?;
    let befores = links.iter().skip(1).map(Some).chain([None]);
    let entries = events.iter().zip(&links).zip(befores);
    Ok(entries
        .map(|((event, link), before)| HistoryEntry {
            version: event.version,
            event_type: event.event_type.clone(),
            at: event.recorded_at,
            by: event.metadata.actor.as_deref().map(shown_to_owner),
            changes: changes(before.map(|before| &before.state), &link.state),
        })
        .collect())
}
