//! `/`: what `projector status` prints, parked accounts, and the latest commands of operators. A script reloads
//! the page.

mod operations;
pub(super) mod parked;

use std::mem;

use axum::{extract::State, http::Uri, response::Response};
use maud::{Markup, html};

use super::{
    Console,
    error_page::ErrorPage,
    figures::sentence,
    layout::{self, Nav},
    parameters::Parameters,
};
use crate::{
    cli::status::plain_text,
    operations::{parked::list, status},
};

/// Maximum number of parked accounts on the page.
const PARKED_MAX: i64 = 20;

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    Parameters::of(&uri, &[])?;
    let mut status = status::collect(&console.databases).await?;
    let findings = mem::take(&mut status.findings);
    let parkings = list(&console.databases.read, None, PARKED_MAX).await?;
    let content = html! {
        div.title {
            h1 { "Overview" }
            p #live-state.quiet { "Reload for newer figures." }
        }
        div data-live {
            (verdict(&findings))
            section {
                h2 { "Status" }
                pre.columns { (plain_text(&status)) }
                p.summary { "Every shard: " code { "projector status --shards" } "." }
            }
            section {
                h2 { "Parked accounts" }
                @if parkings.is_empty() {
                    p.quiet { "None: no account waits for an event that cannot be applied." }
                } @else {
                    (parked::table(&parkings))
                    @if i64::try_from(parkings.len()) == Ok(PARKED_MAX) {
                        p.summary { "There may be more: " code { "projector parked list" } }
                    }
                }
            }
            (operations::section(&status.recent_operations))
        }
    };
    Ok(layout::answer("Overview", Nav::Overview, &content))
}

/// Shows the findings, or that there are none.
fn verdict(findings: &[String]) -> Markup {
    html! {
        @if findings.is_empty() {
            p.verdict { span.good { "✓ All is well" } }
        } @else {
            section.notice {
                h2 { "⚠ Waiting for an operator" }
                ul { @for finding in findings { li { (sentence(finding)) } } }
            }
        }
    }
}
