//! `/links/{id}`: state, rows and history of a link.

use std::time::Duration;

use anyhow::Context as _;
use axum::{extract::State, http::Uri, response::Response};
use linkledger_core::{
    envelope::RecordedEvent, event::Subject, id::LinkId, link::LinkState, shard::Shard,
};
use linkledger_service::databases::Databases;
use maud::{Markup, html};
use tokio::time::timeout;

use super::{
    Console,
    error_page::ErrorPage,
    figures::{account, address, sentence},
    history,
    layout::{self, Nav},
    parameters::Parameters,
};
use crate::{
    operations::verify::{
        self, ComparedRow,
        subject::{self, VerifiedSubject},
    },
    read_models::Projection,
};

/// Longest time for the comparison of a link's rows with the log: some statements by key.
const COMPARISON_TIME_MAX: Duration = Duration::from_secs(3);

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    let link_id: LinkId = history::id_of(&uri, "a link", LinkId::PREFIX)?;
    let mut parameters = Parameters::of(&uri, &["before"])?;
    let before = history::take_before(&mut parameters, "a link")?;
    let databases = &console.databases;
    let link = Subject::Link(link_id);
    let subject = VerifiedSubject::find(&databases.log, link).await?;
    let newest = history::read(&databases.log, subject.account_id, link, None).await?;
    let events = match before {
        None => newest.clone(),
        Some(_) => history::read(&databases.log, subject.account_id, link, before).await?,
    };
    let rows = rows_in_time(&console, &subject).await;
    let page = format!("/links/{link_id}");
    let content = html! {
        @if let Some(last) = newest.first() { (facts(link_id, last)) }
        section {
            h2 { "In the read tables" }
            @match &rows {
                Ok(rows) => (table(rows)),
                Err(error) => p { span.bad { "⚠ cannot be compared: " (sentence(&format!("{error:#}"))) } },
            }
        }
        section {
            h2 { "History" }
            (history::table("History, the newest event first", &page, before, &events))
        }
    };
    Ok(layout::answer(
        &link_id.to_string(),
        Nav::Elsewhere,
        &content,
    ))
}

/// Compares the rows after other comparisons, within [`COMPARISON_TIME_MAX`].
async fn rows_in_time(
    console: &Console,
    subject: &VerifiedSubject,
) -> anyhow::Result<Vec<ComparedRow>> {
    let comparison = async {
        let _permit = console.comparison.acquire().await?;
        rows(&console.databases, subject).await
    };
    let compared = timeout(COMPARISON_TIME_MAX, comparison).await;
    compared.context("the comparison takes too long")?
}

/// Compares the rows of the link in the served generations with the log.
async fn rows(
    databases: &Databases,
    subject: &VerifiedSubject,
) -> anyhow::Result<Vec<ComparedRow>> {
    let mut rows = Vec::new();
    for projection in Projection::ALL {
        let target = verify::served(&databases.read, projection).await?;
        let report = subject::verify(databases, target, subject).await?;
        rows.extend(report.rows);
    }
    Ok(rows)
}

/// Shows the link as of its last event.
fn facts(link_id: LinkId, last: &RecordedEvent) -> Markup {
    let state = last.link_after().ok().map(|after| after.state);
    html! {
        h1 {
            "Link "
            @match &state {
                Some(state) => span.slug { (state.slug) },
                None => "whose last event this release cannot read",
            }
        }
        dl.facts {
            div { dt { "Id" } dd { code { (link_id) } } }
            @if let Some(state) = &state { div { dt { "Now" } dd { (now(state)) } } }
            div { dt { "Account" } dd { (account(last.account_id)) } }
            div { dt { "Version" } dd { (last.version) } }
            div { dt { "Shard" } dd { (Shard::of(last.account_id)) } }
        }
    }
}

fn now(state: &LinkState) -> Markup {
    html! {
        @match (state.deleted, state.disabled_by()) {
            (true, _) => span.bad { "✗ deleted" },
            (false, Some(role)) => {
                span.warn { "✗ disabled by the " (role) ": " } (address(&state.destination_url))
            }
            (false, None) => (address(&state.destination_url)),
        }
    }
}

/// Shows one line for a row that is what the log says, and otherwise one for each column that differs.
fn table(rows: &[ComparedRow]) -> Markup {
    html! {
        table {
            caption.visually-hidden { "Rows of the link, compared with the log" }
            thead { tr {
                th scope="col" { "Table" } th scope="col" { "Column" }
                th scope="col" { "According to the log" } th scope="col" { "In the table" }
            } }
            tbody {
                @for row in rows.iter().filter(|row| row.is_expected || row.is_found) {
                    @if row.columns.iter().all(|column| row.is_right(column)) {
                        (line(row, "all", &html! {}, &html! { span.good { "✓ the same" } }))
                    }
                    @for column in row.columns.iter().filter(|column| !row.is_right(column)) {
                        (line(
                            row,
                            column.name,
                            &value(row.is_expected, column.log.as_ref()),
                            &html! { span.bad { "✗ " (value(row.is_found, column.row.as_ref())) } },
                        ))
                    }
                }
            }
        }
        p.summary { "Every value: " code { "projector verify --link" } "." }
    }
}

fn line(row: &ComparedRow, column: &str, log: &Markup, found: &Markup) -> Markup {
    html! {
        tr {
            th scope="row" { (row.table) }
            td data-label="Column" { (column) }
            td.what data-label="According to the log" { div { (log) } }
            td.what data-label="In the table" { div { (found) } }
        }
    }
}

fn value(is_there: bool, value: Option<&String>) -> Markup {
    html! {
        @match value {
            _ if !is_there => span.quiet { "no row" },
            None => span.quiet { "–" },
            Some(value) => bdi { (value) },
        }
    }
}
