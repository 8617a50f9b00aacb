//! What the read tables show of an account or a link, and why: as `projector why` says it.

use linkledger_core::event::Subject;
use maud::{Markup, html};
use sqlx::PgPool;

use super::figures::sentence;
use crate::operations::{
    figures::grouped,
    why::{ProjectionWhy, why},
};

/// Events that are looked at; the page itself shows them all.
const EVENTS: u16 = 20;

/// The page has more to say than this: where it can't be found out, it says so and goes on.
pub(super) async fn section(pool: &PgPool, subject: Subject) -> Markup {
    html! {
        section {
            h2 { "In the read tables" }
            @match why(pool, subject, EVENTS).await {
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
