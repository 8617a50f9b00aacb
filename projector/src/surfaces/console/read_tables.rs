//! What the read tables show of an account or a link, and why: as `projector why` says it.

use maud::{Markup, html};

use super::figures::sentence;
use crate::operations::{
    figures::grouped,
    why::{ProjectionWhy, WhyReport},
};

/// Events that are looked at; the page itself shows them all.
pub(super) const EVENTS: u16 = 20;

/// The page has more to say than this: where it can't be found out, it says so and goes on.
pub(super) fn section(why: &anyhow::Result<WhyReport>) -> Markup {
    html! {
        section {
            h2 { "In the read tables" }
            @match why {
                Ok(why) => (table(&why.projections)),
                Err(error) => p { span.bad { "⚠ can’t be told: " } (format!("{error:#}")) },
            }
        }
    }
}

fn table(projections: &[ProjectionWhy]) -> Markup {
    html! {
        table {
            caption.visually-hidden { "What each projection shows, and why" }
            thead { tr {
                th scope="col" { "Projection" } th scope="col" { "As the log wants it" }
                th.number scope="col" { "Generation" } th.number scope="col" { "Position" }
                th scope="col" { "In words" }
            } }
            tbody { @for it in projections { tr {
                th scope="row" { (it.projection) }
                td data-label="As the log wants it" { div { (agrees(it)) } }
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
