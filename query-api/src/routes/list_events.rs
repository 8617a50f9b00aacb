//! `GET /v1/events`: a page of the account's events, oldest first, with a wait for the next one. The event store
//! answers.

use std::time::Duration;

use axum::{
    Json,
    http::header::{CACHE_CONTROL, LINK},
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    envelope::RecordedEvent,
    event::{CATALOGUE, DecodeError},
    id::EventId,
    shard::Position,
    timestamp,
};
use linkledger_http::{gate::WAIT_SECONDS_MAX, openapi::Timestamp, problem::Problem, route_table};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::read_request::ReadRequest;
use crate::{
    cache_control::NOT_SHARED,
    consistency::TokenHeader,
    feed::{EventsOnPage, FeedStart, PageStart, WantedEvents, unreadable},
    paging::{LIMIT, PageRequest, Paginator, of_parameter},
    parameters::{ParameterError, Parameters, parse_instant, parse_name, parse_number},
};

const AFTER: &str = "after";
const FROM: &str = "from";
const TYPES: &str = "types";
const WAIT: &str = "wait";
/// Value of [`FROM`] for all events.
const BEGINNING: &str = "beginning";
/// Value of [`FROM`] for later events only.
const NOW: &str = "now";

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct EventParameters {
    /// `next_cursor` of the page before, as it is.
    #[param(format = "cursor")]
    after: Option<String>,
    /// Start of the first page, not together with `after`: `beginning` for all events, `now` for those to come (an
    /// empty page with a cursor, at once), or an instant for those recorded since. A date is the begin of its UTC day.
    #[param(format = "feed-start", min_length = 3, default = "beginning")]
    from: Option<String>,
    /// Only events of these types, separated by commas.
    #[param(
        format = "event-types",
        min_length = 1,
        example = "LinkCreated,LinkDeleted"
    )]
    types: Option<String>,
    /// Most items on the page.
    #[param(minimum = 1, maximum = 100, default = 50)]
    limit: Option<u8>,
    /// Seconds that the answer may wait for an event, if there is none yet.
    #[param(minimum = 0, maximum = 25, default = 0)]
    wait: Option<u8>,
}

/// Event of an account, of its keys, its credits or its links, as the owner sees it.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
struct EventBody {
    #[schema(value_type = String, examples("evt_01h455vb4pex5vsknk084sn02s"))]
    id: EventId,
    /// Type of the event; later releases can add others.
    #[serde(rename = "type")]
    #[schema(examples("LinkDeleted"))]
    event_type: String,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    time: OffsetDateTime,
    /// Number that is greater than those of all earlier events of the account; numbers are left out.
    #[schema(value_type = i64, minimum = 1, examples(4711))]
    sequence: Position,
    /// Payload of the event, as `docs/events.md` describes it, without what operators write for themselves.
    #[schema(value_type = Object)]
    data: Value,
}

/// A page of events.
#[derive(Serialize, ToSchema)]
struct EventPage {
    items: Vec<EventBody>,
    /// Place after the page, also of the last one: later events follow it.
    next_cursor: String,
    /// True if the account may have events after the page. They may be others than those asked for.
    has_more: bool,
}

impl EventBody {
    /// Returns the body of an event.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if this release cannot read the event.
    fn of(event: &RecordedEvent) -> Result<Self, DecodeError> {
        Ok(Self {
            id: event.event_id,
            event_type: event.event_type.clone(),
            time: event.recorded_at,
            sequence: event.position,
            data: event.decode()?.owner_payload(),
        })
    }

    /// Returns the example of the OpenAPI document.
    fn example() -> Value {
        json!({
            "id": "evt_01h455vb4pex5vsknk084sn02s",
            "type": "LinkDeleted",
            "time": "2026-11-20T09:51:00.123Z",
            "sequence": 4711,
            "data": {
                "link_id": "lnk_01h455vb4pex5vsknk084sn02q",
                "account_id": "acc_01h455vb4pex5vsknk084sn02r",
                "slug": "spring-sale",
            },
        })
    }
}

/// Parameters of a request.
struct EventsRequest {
    page: PageRequest,
    /// Start, if the request names one.
    from: Option<FeedStart>,
    /// Types in the order of the catalogue; `None` for all types.
    types: Option<Vec<&'static str>>,
    wait: Duration,
}

impl EventsRequest {
    fn of(request: &ReadRequest) -> Result<Self, Problem> {
        let mut parameters = Parameters::of(&request.uri, &[AFTER, FROM, TYPES, LIMIT, WAIT]);
        let page = PageRequest::take_after(&mut parameters, AFTER);
        let from = parameters.take(FROM, parse_from);
        let types = parameters.take(TYPES, parse_types);
        let seconds = |text: &str| parse_number(WAIT, 0..=WAIT_SECONDS_MAX, text);
        let wait = parameters.take(WAIT, seconds).unwrap_or_default();
        parameters.check()?;
        if from.is_some() && page.cursor.is_some() {
            let detail = "Send either from or after: a cursor says where to go on.";
            return Err(Problem::invalid_parameter(FROM, "not_with_after", detail));
        }
        Ok(Self {
            page,
            from,
            types,
            wait: Duration::from_secs(wait.into()),
        })
    }

    /// Returns the filter as a query in canonical form.
    fn filters(&self) -> String {
        let types = self.types.as_ref();
        types.map_or_else(String::new, |types| format!("{TYPES}={}", types.join(",")))
    }

    /// Returns the start of the page.
    ///
    /// # Errors
    /// Returns `invalid_cursor`.
    fn start(&self, list: &Paginator<'_>) -> Result<PageStart, Problem> {
        let place = list.start_of(&self.page);
        let place = place.map_err(|problem| of_parameter(AFTER, problem))?;
        let first = PageStart::First(self.from.unwrap_or(FeedStart::Beginning));
        Ok(place.map_or(first, PageStart::After))
    }
}

fn parse_from(text: &str) -> Result<FeedStart, ParameterError> {
    match text {
        BEGINNING => Ok(FeedStart::Beginning),
        NOW => Ok(FeedStart::Now),
        _ => parse_instant(FROM, text)
            .map(FeedStart::At)
            .map_err(|error| ParameterError {
                detail: format!("{} Or send {BEGINNING} or {NOW}.", error.detail),
                ..error
            }),
    }
}

/// Parses types separated by commas, and returns each once, in the order of the catalogue.
fn parse_types(text: &str) -> Result<Vec<&'static str>, ParameterError> {
    let known: Vec<&'static str> = CATALOGUE.iter().map(|(name, _)| *name).collect();
    let of_name = |text: &str| known.iter().copied().find(|name| *name == text);
    let named: Result<Vec<&'static str>, ParameterError> = text
        .split(',')
        .map(|name| parse_name(name, of_name, &known))
        .collect();
    let named = named?;
    let types = known.into_iter().filter(|name| named.contains(name));
    Ok(types.collect())
}

/// Lists the events of the account, oldest first.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::EVENTS,
    tag = "events",
    summary = "Read the feed of events",
    description = "A page of the account's events, oldest first, each once and in the order in which they happened: \
                   those of the account, its keys, its credits and its links. Pass `next_cursor` as `after`, with the \
                   same `types`, also when `has_more` is false: later events follow it. With `wait`, an answer without \
                   an event waits for one. With `types`, a request looks at 1,000 events at most, so a page may be \
                   short, even empty, although `has_more` is true.",
    params(EventParameters, TokenHeader),
    responses(
        (status = 200, description = "A page of events.", body = EventPage, headers(("Link")),
         links(("next_page" = (operation_id = "list_events", description = "With the same types.",
                               parameters(("after" = "$response.body#/next_cursor"))))),
         example = json!({ "items": [EventBody::example()], "next_cursor": "AeOwxEKY_BwU", "has_more": false })),
    ),
    security(("api_key" = [Scope::EventsRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_events(request: ReadRequest) -> Result<Response, Problem> {
    let asked_at = Instant::now();
    let asked = EventsRequest::of(&request)?;
    let list = request.list(route_table::EVENTS, asked.filters());
    let start = asked.start(&list)?;
    // Every committed write is in the event store: a token needs no wait.
    request.position_for_json()?;

    let (feed, account_id) = (&request.api.feed, request.account_id);
    let wanted = WantedEvents {
        types: asked.types,
        limit: asked.page.limit,
    };
    // An answer that got lost while waiting would take the place of `now` with it.
    let is_of_now = matches!(start, PageStart::First(FeedStart::Now));
    let page = if asked.wait.is_zero() || is_of_now {
        feed.read(account_id, start, &wanted).await?
    } else {
        let until = asked_at + asked.wait;
        let waiting = feed.read_or_wait(account_id, start, &wanted, until);
        waiting.await?
    };
    answer(&list, wanted.limit, &page)
}

fn answer(list: &Paginator<'_>, limit: u8, page: &EventsOnPage) -> Result<Response, Problem> {
    let events = page.events.iter();
    let items: Result<Vec<EventBody>, Problem> = events
        .map(|event| EventBody::of(event).map_err(|error| unreadable(event, &error)))
        .collect();
    let next_cursor = list.scope.cursor_after(&page.next);
    let next_page = list.link_to(limit, AFTER, &next_cursor);
    let body = EventPage {
        items: items?,
        next_cursor,
        has_more: page.has_more,
    };
    let mut response = ([(CACHE_CONTROL, NOT_SHARED)], Json(body)).into_response();
    if page.has_more {
        response.headers_mut().insert(LINK, next_page);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_once_in_the_order_of_the_catalogue() {
        let types = |text: &str| parse_types(text).map_err(|error| error.code);
        let both = Ok(vec!["LinkCreated", "LinkDeleted"]);
        assert_eq!(types("LinkCreated,LinkDeleted"), both);
        assert_eq!(types("LinkDeleted,LinkCreated,LinkDeleted"), both);
        for text in [
            "",
            ",",
            "LinkCreated,",
            "linkcreated",
            "LinkCreated, LinkDeleted",
            "LinkFrozen",
        ] {
            assert_eq!(types(text), Err("unknown_value"), "{text:?}");
        }
    }

    #[test]
    fn feed_starts_at_a_word_an_instant_or_a_date() {
        assert!(matches!(parse_from(BEGINNING), Ok(FeedStart::Beginning)));
        assert!(matches!(parse_from(NOW), Ok(FeedStart::Now)));
        for text in [
            "2026-11-20",
            "2026-11-20T09:00:00Z",
            "2026-11-20T11:00:00.5+02:00",
        ] {
            assert!(matches!(parse_from(text), Ok(FeedStart::At(_))), "{text}");
        }
        for text in ["", "Now", "end", "2026-11-31", "20", "1999-01-01"] {
            let error = parse_from(text).unwrap_err();
            assert_eq!(error.code, "invalid_time", "{text}");
            assert!(
                error.detail.ends_with("Or send beginning or now."),
                "{}",
                error.detail
            );
        }
    }
}
