//! Latest commands of operators.

use maud::{Markup, html};

use crate::{
    console::figures::{instant, lines},
    operations::audit::RecordedCommand,
};

pub(super) fn section(operations: &[RecordedCommand]) -> Markup {
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

fn row(it: &RecordedCommand) -> Markup {
    html! {
        tr {
            td.when data-label="Began" { (instant(it.started_at)) }
            td data-label="Command" { div {
                b { (it.command) }
                @if let Some(projection) = &it.projection { " " (projection) }
                @if let Some(subject) = &it.subject { " " span.id { (subject) } }
            } }
            td.what data-label="Outcome" { div { (outcome(it)) } }
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

fn outcome(it: &RecordedCommand) -> Markup {
    html! {
        @match (&it.outcome, it.finished_at) {
            (Some(outcome), Some(at)) => {
                @if outcome == "done" {
                    span.good { "✓ done" }
                } @else {
                    span.bad { "✗ " (outcome) }
                }
                @if let Some(detail) = &it.detail { ": " (lines(detail)) }
                br;
                span.quiet { "at " (instant(at)) }
            },
            _ if it.is_running => span.warn { "… running" },
            _ => { span.bad { "✗ its process died" } ": run the command again" },
        }
    }
}
