//! `/`: status report of the projector. A script reloads the page.

mod clicks;
mod facts;
mod generations;
mod operations;
pub(super) mod parked;
mod projections;

use axum::{extract::State, http::Uri, response::Response};
use maud::{Markup, html};

use super::{
    Console,
    error_page::ErrorPage,
    figures::{sentence, stamp},
    layout::{self, Nav},
    parameters::Parameters,
};
use crate::operations::{
    parked::list,
    status::{self, StatusReport},
};

/// Maximum number of parked accounts on the page.
const PARKED_MAX: i64 = 20;

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    Parameters::of(&uri, &[])?;
    let status = status::collect(&console.databases).await?;
    let parkings = list(&console.databases.read, None, PARKED_MAX).await?;
    let content = html! {
        div.title {
            h1 { "Overview" }
            p #live-state.quiet { "Reload for newer figures." }
        }
        div data-live {
            (verdict(&status))
            (projections::section(&status.projections, &console.samples))
            (generations::section(&status.projections, &console.samples))
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
            div.columns {
                (facts::relay(&status.relay))
                (facts::snapshot(&status.snapshots))
            }
            @if let Ok(clicks) = &status.clicks { (clicks::section(clicks)) }
            (operations::section(&status.recent_operations))
            p.summary { "As of " (stamp(&status.at)) ", log epoch " (status.log_epoch) "." }
        }
    };
    Ok(layout::answer("Overview", Nav::Overview, &content))
}

/// Shows the findings, or that there are none.
fn verdict(status: &StatusReport) -> Markup {
    html! {
        @if status.findings.is_empty() {
            p.verdict { span.good { "✓ All is well" } }
        } @else {
            section.notice {
                h2 { "⚠ Waiting for an operator" }
                ul { @for finding in &status.findings { li { (sentence(finding)) } } }
            }
        }
    }
}
