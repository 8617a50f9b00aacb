//! Rows of the read tables for an account or a link, explained as by `projector why`.

use maud::{Markup, html};

use super::figures::sentence;
use crate::operations::{
    figures::grouped,
    why::{ProjectionWhy, WhyReport},
};

/// Shows the rows, or the error because of which the page has only the history.
pub(super) fn section(why: &WhyReport) -> Markup {
    html! {
        section {
            h2 { "In the read tables" }
            @match &why.error {
                None => (table(&why.projections)),
                Some(error) => p { span.bad { "⚠ cannot be explained: " } (format!("{error:#}")) },
            }
        }
    }
}

fn table(projections: &[ProjectionWhy]) -> Markup {
    html! {
        table {
            caption.visually-hidden { "What each projection shows, and why" }
            thead { tr {
                th scope="col" { "Projection" } th scope="col" { "According to the log" }
                th.number scope="col" { "Generation" } th.number scope="col" { "Position" }
                th scope="col" { "In words" }
            } }
            tbody { @for it in projections { tr {
                th scope="row" { (it.projection) }
                td data-label="According to the log" { div { (agrees(it)) } }
                td.number data-label="Generation" { (it.generation) }
                td.number data-label="Position" { (grouped(it.position)) }
                td.shows data-label="In words" { div { (sentence(&it.why)) } }
            } } }
        }
    }
}

fn agrees(it: &ProjectionWhy) -> Markup {
    html! {
        @match it.agrees {
            Some(true) => span.good { "✓ yes" },
            Some(false) => span.bad { "✗ no" },
            None => span.quiet {
                "– not judged here; " code { "projector verify " (it.projection) }
                " compares what can be"
            },
        }
    }
}
