//! What operators are doing, and have done last.

use maud::{Markup, html};

use crate::{
    operations::audit::listing::{Course, Recorded},
    surfaces::console::figures::{instant, lines},
};

pub(super) fn section(operations: &[Recorded]) -> Markup {
    html! {
        section {
            h2 { "Operators’ commands" }
            @if operations.is_empty() {
                p.quiet { "None on record." }
            } @else {
                table {
                    caption.visually-hidden { "Operators’ commands, the last one first" }
                    thead { tr {
                        th scope="col" { "Began" } th scope="col" { "Command" }
                        th scope="col" { "Outcome" } th scope="col" { "By" } th scope="col" { "Why" }
                    } }
                    tbody { @for it in operations { (row(it)) } }
                }
            }
        }
    }
}

fn row(it: &Recorded) -> Markup {
    html! {
        tr {
            td.when data-label="Began" { (instant(it.started_at)) }
            td data-label="Command" { div {
                b { (it.command) }
                @if let Some(projection) = &it.projection { " " (projection) }
                @if let Some(subject) = &it.subject { " " span.id { (subject) } }
            } }
            td.what data-label="Outcome" { div { (course(&it.course)) } }
            td data-label="By" { div { bdi { (it.operator) } } }
            td data-label="Why" { div {
                @match &it.reason {
                    Some(reason) => bdi { (reason) },
                    None => span.quiet { "–" },
                }
            } }
        }
    }
}

fn course(course: &Course) -> Markup {
    match course {
        Course::Running => html! { span.warn { "… running" } },
        Course::Silent => html! {
            span.bad { "✗ its process has died" } ": run the command again"
        },
        Course::Ended {
            at,
            outcome,
            detail,
        } => html! {
            @if outcome == "done" {
                span.good { "✓ done" }
            } @else {
                span.bad { "✗ " (outcome) }
            }
            @if let Some(detail) = detail { ": " (lines(detail)) }
            br;
            span.quiet { "at " (instant(*at)) }
        },
    }
}
