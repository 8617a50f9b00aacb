//! `/links/{id}`: history of a link, and its destination on a given day.

use axum::{extract::State, http::Uri, response::Response};
use linkledger_core::{event::Subject, id::LinkId};
use maud::{Markup, html};
use time::{Date, format_description::FormatItem, macros::format_description};

use super::{
    Console,
    error_page::ErrorPage,
    figures::{account, address, instant},
    history::{self, PAGE_EVENTS},
    layout::{self, Nav},
    parameters::Parameters,
    read_tables, wording,
};
use crate::operations::why::{LinkRecord, Stretch, WhyReport, WhyRequest, why_or_history};

const DATE: &[FormatItem<'_>] = format_description!("[year]-[month]-[day]");

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    let link_id: LinkId = history::id_of(&uri, "a link", LinkId::PREFIX)?;
    let mut parameters = Parameters::of(&uri, &["on", "before"])?;
    let on = parameters.take_parsed(
        "on",
        |text| Date::parse(text, DATE).ok().filter(|date| date.year() > 0),
        "is not a day: write it as 2026-11-20.",
    )?;
    let request = WhyRequest {
        before: history::take_before(&mut parameters, "a link")?,
        on,
        ..WhyRequest::newest(Subject::Link(link_id), PAGE_EVENTS)
    };
    let why = why_or_history(&console.databases, request).await?;
    let page = format!("/links/{link_id}");
    let content = html! {
        @if let Some(link) = &why.link {
            (facts(link, &why))
            (question(link, on))
        }
        (read_tables::section(&why))
        section {
            h2 { "History" }
            (history::table(
                "History, the newest event first", &page, request.before, &why.events
            ))
        }
    };
    Ok(layout::answer(
        &link_id.to_string(),
        Nav::Elsewhere,
        &content,
    ))
}

/// Shows the link as of its first and its last event.
fn facts(link: &LinkRecord, why: &WhyReport) -> Markup {
    html! {
        h1 {
            "Link "
            @match &link.created {
                Some(created) => span.slug { (created.slug) },
                None => "whose creation this release cannot read",
            }
        }
        dl.facts {
            div { dt { "Id" } dd { code { (link.link_id) } } }
            div { dt { "Now" } dd { (wording::destination(&link.destination)) } }
            @if let Some(created) = &link.created {
                div { dt { "Short link" } dd { (address(&created.short_url)) } }
            }
            div { dt { "Account" } dd { (account(why.account_id)) } }
            div { dt { "Version" } dd { (why.events_in_all) } }
            div { dt { "Created" } dd { (instant(link.creation.recorded_at)) } }
            div { dt { "Shard" } dd { (why.shard) } }
        }
    }
}

fn question(link: &LinkRecord, on: Option<Date>) -> Markup {
    let day = on.and_then(|date| date.format(DATE).ok());
    html! {
        section.question {
            h2 #day { "Where did it point on that day?" }
            form action={ "/links/" (link.link_id) } {
                label for="on" { "Day, in UTC" }
                input #on name="on" type="date" required value=[&day];
                button { "Show" }
            }
            @if let (Some(day), Some(stretches)) = (&day, &link.day) {
                (table(day, stretches))
            }
        }
    }
}

/// Shows the destinations of the day, from morning to night.
fn table(day: &str, stretches: &[Stretch]) -> Markup {
    html! {
        @if stretches.is_empty() {
            p role="status" { "The day " (day) " has not begun." }
        } @else {
            table {
                caption { "On " (day) ", from its beginning on" }
                thead { tr {
                    th scope="col" { "From" } th scope="col" { "Until" }
                    th scope="col" { "It pointed to" }
                } }
                tbody {
                    @for stretch in stretches { tr {
                        td.when data-label="From" { (instant(stretch.from)) }
                        td.when data-label="Until" { (instant(stretch.until)) }
                        td.what data-label="It pointed to" { div { (wording::destination(&stretch.destination)) } }
                    } }
                }
            }
            p.summary {
                "The short host follows within a second. While the account was suspended with "
                code { "--stop-redirects" } " (its ledger says when), visitors were told that the \
                link is gone."
            }
        }
    }
}
