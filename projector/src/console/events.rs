//! `/events`: newest events, optionally of one account, one link or one type.

use axum::{extract::State, http::Uri, response::Response};
use linkledger_core::{
    envelope::RecordedEvent,
    event::{CATALOGUE, Subject},
    id::{AccountId, LinkId},
    shard::Shard,
};
use linkledger_event_store::{
    links,
    log::{self, StreamPart},
};
use maud::{Markup, html};
use sqlx::PgPool;

use super::{
    Console,
    error_page::ErrorPage,
    layout::{self, Nav},
    newest_events::{self, EventsCursor, PAGE_EVENTS},
    parameters::Parameters,
    wording,
};
use crate::operations::{figures::grouped, verify::subject::UnknownSubject};

/// Maximum number of events of a link that are read for a page of one type.
const STREAM_SPAN: usize = 2_000;
/// Longest type that is accepted, in characters.
const TYPE_LENGTH_MAX: usize = 100;

/// Filters of the form, and begin of the page.
#[derive(Debug)]
struct Query {
    account_id: Option<AccountId>,
    link_id: Option<LinkId>,
    event_type: Option<String>,
    before: Option<EventsCursor>,
    before_version: Option<i64>,
}

/// Content of the page.
struct Shown {
    events: Vec<RecordedEvent>,
    /// Number of events that were read.
    looked_at: i64,
    /// Name and value of the parameter of the next page.
    next: Option<(&'static str, String)>,
}

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    let query = Query::of(&uri)?;
    let shown = query.run(&console.databases.log).await?;
    let content = html! {
        h1 { "Events" }
        (query.form())
        (query.summary(&shown))
        @if !shown.events.is_empty() {
            (wording::table("The newest events first", &shown.events, query.link_id.is_some()))
        }
        nav.paging aria-label="Paging" {
            @if query.is_later_page() {
                a href=(query.address(None)) { "⇤ Newest" }
            }
            @if shown.next.is_some() {
                a rel="next" href=(query.address(shown.next.clone())) { "Older →" }
            }
        }
    };
    Ok(layout::answer("Events", Nav::Events, &content))
}

impl Query {
    fn of(uri: &Uri) -> Result<Self, ErrorPage> {
        let known = ["account", "link", "type", "before", "before_version"];
        let mut parameters = Parameters::of(uri, &known)?;
        Ok(Self {
            account_id: parameters.take_parsed(
                "account",
                |text| text.parse().ok(),
                "is not the id of an account: acc_ and 26 digits and letters.",
            )?,
            link_id: parameters.take_parsed(
                "link",
                |text| text.parse().ok(),
                "is not the id of a link: lnk_ and 26 digits and letters.",
            )?,
            event_type: parameters.take_parsed(
                "type",
                |text| (text.chars().count() <= TYPE_LENGTH_MAX).then(|| text.to_owned()),
                "is longer than the name of any type.",
            )?,
            before: parameters.take_parsed(
                "before",
                EventsCursor::parse,
                "is not a place in the log: 16 positions with dots between them.",
            )?,
            before_version: parameters.take_parsed(
                "before_version",
                |text| text.parse().ok().filter(|version| *version > 0),
                "is not the version of a link: a number from 1.",
            )?,
        })
    }

    async fn run(&self, pool: &PgPool) -> Result<Shown, ErrorPage> {
        if let Some(link_id) = self.link_id {
            return self.of_link(pool, link_id).await;
        }
        let (account_id, event_type) = (self.account_id, self.event_type.as_deref());
        let found = newest_events::find(pool, account_id, event_type, self.before).await?;
        Ok(Shown {
            events: found.events,
            looked_at: found.looked_at,
            next: found.next.map(|cursor| ("before", cursor.to_string())),
        })
    }

    async fn of_link(&self, pool: &PgPool, link_id: LinkId) -> Result<Shown, ErrorPage> {
        let owner = links::find_owner(pool, link_id).await?;
        let owner = owner.ok_or(UnknownSubject::Link(link_id))?;
        let span = match &self.event_type {
            Some(_) => STREAM_SPAN,
            None => PAGE_EVENTS,
        };
        let part = StreamPart {
            before: self.before_version.unwrap_or(i64::MAX),
            ..StreamPart::newest(
                Shard::of(owner),
                Subject::Link(link_id),
                i64::try_from(span).expect("some thousands"),
            )
        };
        let events = log::read_stream_backwards(pool, &part).await?;
        let end = events.last().map_or(1, |event| event.version);
        let newest = events.first().map_or(0, |event| event.version);
        let is_wanted = |event: &RecordedEvent| {
            self.event_type
                .as_ref()
                .is_none_or(|wanted| *wanted == event.event_type)
                && self
                    .account_id
                    .is_none_or(|wanted| wanted == event.account_id)
        };
        let mut events: Vec<_> = events.into_iter().filter(is_wanted).collect();
        let is_full = events.len() > PAGE_EVENTS;
        events.truncate(PAGE_EVENTS);
        let end = events
            .last()
            .filter(|_| is_full)
            .map_or(end, |last| last.version);
        Ok(Shown {
            events,
            looked_at: newest - end + 1,
            next: (end > 1).then(|| ("before_version", end.to_string())),
        })
    }

    fn is_later_page(&self) -> bool {
        self.before.is_some() || self.before_version.is_some()
    }

    /// Returns the filters: names of the parameters, and values.
    fn filters(&self) -> [(&'static str, Option<String>); 3] {
        [
            ("account", self.account_id.map(|it| it.to_string())),
            ("link", self.link_id.map(|it| it.to_string())),
            ("type", self.event_type.clone()),
        ]
    }

    /// Returns the address with the same filters, from a place on.
    fn address(&self, place: Option<(&'static str, String)>) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let filters = self.filters().into_iter();
        let filters = filters.filter_map(|(name, value)| Some((name, value?)));
        query.extend_pairs(filters.chain(place));
        match query.finish() {
            query if query.is_empty() => "/events".to_owned(),
            query => format!("/events?{query}"),
        }
    }

    fn form(&self) -> Markup {
        let [account, link, event_type] = self.filters().map(|(_, value)| value);
        html! {
            form.filters action="/events" role="search" aria-label="Filter events" {
                p {
                    label for="account" { "Account" }
                    input #account name="account" placeholder="acc_…" autocomplete="off"
                        spellcheck="false" value=(account.unwrap_or_default());
                }
                p {
                    label for="link" { "Link" }
                    input #link name="link" placeholder="lnk_…" autocomplete="off"
                        spellcheck="false" value=(link.unwrap_or_default());
                }
                p {
                    label for="type" { "Type" }
                    input #type name="type" list="types" placeholder="any" autocomplete="off"
                        spellcheck="false" value=(event_type.unwrap_or_default());
                    datalist #types {
                        @for (event_type, _) in CATALOGUE { option value=(event_type) {} }
                    }
                }
                p { button { "Show" } " " a href="/events" { "all" } }
            }
        }
    }

    /// Shows the number of events that were read, so that a reader can tell a part from the whole.
    fn summary(&self, shown: &Shown) -> Markup {
        let looked_at = grouped(shown.looked_at);
        html! {
            p.summary role="status" {
                @if !shown.events.is_empty() {
                    (shown.events.len()) " events, the newest first"
                    @if self.account_id.is_some() || self.event_type.is_some() {
                        "; " (looked_at) " events were read"
                    }
                    "."
                } @else if shown.next.is_some() {
                    "None of the " (looked_at) " events that were read matches. Older events exist: read on."
                } @else {
                    "There is no such event."
                    @if self.is_later_page() { " All events were read." }
                }
            }
        }
    }
}
