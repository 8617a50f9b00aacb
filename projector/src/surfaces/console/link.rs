//! `/links/{id}`: history of a link, and its destination on a given day.

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
    error_page::ErrorPage,
    figures::{account, address, instant},
    history::{self, PAGE_EVENTS},
    layout::{self, Nav},
    parameters::Parameters,
    read_tables,
};
use crate::operations::why::why;

const DATE: &[FormatItem<'_>] = format_description!("[year]-[month]-[day]");

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    let link_id: LinkId = history::id_of(&uri, "a link", LinkId::PREFIX)?;
    let mut parameters = Parameters::of(&uri, &["on", "before"])?;
    let on = parameters.take_parsed(
        "on",
        |text| Date::parse(text, DATE).ok().filter(|date| date.year() > 0),
        "is not a day: write it as 2026-11-20.",
    )?;
    let before = history::take_before(&mut parameters, "a link")?;
    let pool = &console.pool;
    let owner = links::find_owner(pool, link_id).await?;
    let owner =
        owner.ok_or_else(|| ErrorPage::not_found(&format!("There is no link {link_id}.")))?;
    let stream = Stream { link_id, owner };
    let created = stream.read(pool, Some(2), 1).await?;
    let newest = stream.read(pool, None, 1).await?;
    let newest_first = stream.read(pool, before, PAGE_EVENTS).await?;
    let answered = match on {
        Some(date) => Some(stream.on_day(pool, date).await?),
        None => None,
    };
    let why = why(pool, Subject::Link(link_id), read_tables::EVENTS).await;
    let page = format!("/links/{link_id}");
    let content = html! {
        (stream.facts(created.first(), newest.first()))
        (stream.question(on, answered.as_ref()))
        (read_tables::section(&why))
        section {
            h2 { "History" }
            (history::table("History, the newest event first", &page, before, &newest_first))
        }
    };
    Ok(layout::answer(
        &link_id.to_string(),
        Nav::Elsewhere,
        &content,
    ))
}

/// Stream of an existing link.
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

    /// Returns the states of the link on a day.
    async fn on_day(&self, pool: &PgPool, date: Date) -> sqlx::Result<Vec<Stretch>> {
        let day = Day::of(date);
        let part = StreamPart {
            recorded_before: Some(day.end),
            ..self.end(CHANGES_MAX)
        };
        let events = log::read_stream_backwards(pool, &part).await?;
        Ok(pointing::stretches(&events, day, SystemClock.now()))
    }

    /// Shows the link as of its first and its last event.
    fn facts(&self, first: Option<&RecordedEvent>, last: Option<&RecordedEvent>) -> Markup {
        let created = first.and_then(creation);
        html! {
            h1 {
                "Link "
                @match &created {
                    Some(created) => span.slug { (created.slug) },
                    None => "whose creation this release cannot read",
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
