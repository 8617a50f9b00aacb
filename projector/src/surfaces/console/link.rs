//! `/links/{id}`: a link's history, and where it pointed to on a given day.

mod pointing;

use axum::{extract::State, http::Uri, response::Response};
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    envelope::RecordedEvent,
    event::{Event, Subject},
    event_store::{
        links,
        log::{self, StreamPart},
    },
    id::{AccountId, LinkId},
    link::{LinkCreated, LinkEvent},
    shard::Shard,
};
use maud::{Markup, html};
use sqlx::PgPool;
use time::{Date, format_description::FormatItem, macros::format_description};

use self::pointing::{CHANGES_MAX, Day, Pointing, Stretch};
use super::{
    Console,
    figures::{account, address, instant},
    layout::{self, Nav},
    parameters::Parameters,
    read_tables,
    refusal::Refusal,
    wording,
};

/// Events of the history on a page.
const PAGE_EVENTS: i64 = 50;
const DATE: &[FormatItem<'_>] = format_description!("[year]-[month]-[day]");

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, Refusal> {
    let link_id = link_of(&uri)?;
    let mut parameters = Parameters::of(&uri, &["on", "before"])?;
    let on = parameters.take_parsed(
        "on",
        |text| Date::parse(text, DATE).ok().filter(|date| date.year() > 0),
        "is not a day: write it as 2026-11-20.",
    )?;
    let before = parameters.take_parsed(
        "before",
        |text| text.parse().ok().filter(|version| *version > 0),
        "is not the version of a link: a number from 1.",
    )?;
    let pool = &console.pool;
    let owner = links::find_owner(pool, link_id).await?;
    let owner = owner.ok_or_else(|| Refusal::not_found(&format!("There is no link {link_id}.")))?;
    let stream = Stream { link_id, owner };
    let created = stream.read(pool, Some(2), 1).await?;
    let newest = stream.read(pool, None, 1).await?;
    let history = stream.read(pool, before, PAGE_EVENTS).await?;
    let answered = match on {
        Some(date) => Some(stream.on_day(pool, date).await?),
        None => None,
    };
    let older = history.last().filter(|last| last.version > 1);
    let content = html! {
        (stream.facts(created.first(), newest.first()))
        (stream.question(on, answered.as_ref()))
        (read_tables::section(pool, Subject::Link(link_id)).await)
        section {
            h2 { "History" }
            (wording::table("History, the newest event first", &history, true))
            nav.paging aria-label="Paging" {
                @if before.is_some() { a href={ "/links/" (link_id) } { "⇤ Newest" } }
                @if let Some(last) = older {
                    a rel="next" href={ "/links/" (link_id) "?before=" (last.version) } {
                        "Older →"
                    }
                }
            }
        }
    };
    Ok(layout::answer(
        &link_id.to_string(),
        Nav::Elsewhere,
        &content,
    ))
}

/// From the address as it was sent: an id has one spelling, and a percent sign is in none.
fn link_of(uri: &Uri) -> Result<LinkId, Refusal> {
    let id = uri.path().rsplit('/').next().unwrap_or_default();
    let parsed = id.parse();
    parsed.map_err(|_| Refusal::bad_id(id, "a link", LinkId::PREFIX))
}

/// The stream of a link that there is.
struct Stream {
    link_id: LinkId,
    owner: AccountId,
}

impl Stream {
    fn end(&self, limit: i64) -> StreamPart {
        StreamPart::newest(Shard::of(self.owner), Subject::Link(self.link_id), limit)
    }

    async fn read(
        &self,
        pool: &PgPool,
        before: Option<i64>,
        limit: i64,
    ) -> sqlx::Result<Vec<RecordedEvent>> {
        let part = StreamPart {
            before: before.unwrap_or(i64::MAX),
            ..self.end(limit)
        };
        log::read_stream_backwards(pool, &part).await
    }

    /// What the link was on that day, from its beginning on.
    async fn on_day(&self, pool: &PgPool, date: Date) -> sqlx::Result<Vec<Stretch>> {
        let day = Day::of(date);
        let part = StreamPart {
            recorded_before: Some(day.end),
            ..self.end(CHANGES_MAX)
        };
        let events = log::read_stream_backwards(pool, &part).await?;
        Ok(pointing::stretches(&events, day, SystemClock.now()))
    }

    /// What the link is, as its first and its last event tell.
    fn facts(&self, first: Option<&RecordedEvent>, last: Option<&RecordedEvent>) -> Markup {
        let created = first.and_then(creation);
        html! {
            h1 {
                "Link "
                @match &created {
                    Some(created) => span.slug { (created.slug) },
                    None => "whose creation this release can’t read",
                }
            }
            dl.facts {
                div { dt { "Id" } dd { code { (self.link_id) } } }
                div { dt { "Now" } dd { @if let Some(last) = last { (Pointing::after(last)) } } }
                @if let Some(created) = &created {
                    div { dt { "Short link" } dd { (address(&created.short_url)) } }
                }
                div { dt { "Account" } dd { (account(self.owner)) } }
                @if let Some(last) = last { div { dt { "Version" } dd { (last.version) } } }
                @if let Some(first) = first { div { dt { "Created" } dd { (instant(first.recorded_at)) } } }
                div { dt { "Shard" } dd { (Shard::of(self.owner)) } }
            }
        }
    }

    fn question(&self, on: Option<Date>, answer: Option<&Vec<Stretch>>) -> Markup {
        let day = on.and_then(|date| date.format(DATE).ok());
        html! {
            section.question {
                h2 #day { "Where did it point on that day?" }
                form action={ "/links/" (self.link_id) } {
                    label for="on" { "Day, in UTC" }
                    input #on name="on" type="date" required value=[&day];
                    button { "Show" }
                }
                @if let (Some(day), Some(stretches)) = (&day, answer) {
                    (pointing::table(day, stretches))
                }
            }
        }
    }
}

fn creation(first: &RecordedEvent) -> Option<LinkCreated> {
    match first.decode().ok()? {
        Event::Link(LinkEvent::Created(created)) => Some(created),
        Event::Link(_) | Event::Account(_) | Event::Credits(_) => None,
    }
}
