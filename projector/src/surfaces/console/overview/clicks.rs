//! Counting of clicks.

use maud::{Markup, html};

use crate::{
    operations::{
        clicks::ClickStatus,
        figures::{counted, duration, grouped},
    },
    surfaces::console::figures::instant,
};

pub(super) fn section(clicks: &ClickStatus) -> Markup {
    html! {
        section {
            h2 { "Clicks" }
            table {
                caption.visually-hidden { "Counting of clicks" }
                thead { tr {
                    th scope="col" { "State" } th scope="col" { "Complete until" } th.number scope="col" { "Lag" }
                    th.number scope="col" { "Last batch" } th.number scope="col" { "Lost records" }
                } }
                tbody { (row(clicks)) }
            }
            p.summary { (counted(clicks.recorders.unsigned_abs(), "recorder")) " alive." }
        }
    }
}

fn row(it: &ClickStatus) -> Markup {
    html! {
        tr {
            td data-label="State" {
                @if it.paused_at.is_some() {
                    span.warn { "‖ paused" }
                } @else {
                    span.good { "✓ counts" }
                }
            }
            td.when data-label="Complete until" {
                @match it.complete_until {
                    Some(until) => { (instant(until)) },
                    None => span.quiet { "not yet" },
                }
            }
            td.number data-label="Lag" { (duration(it.lag_seconds)) }
            td.number data-label="Last batch" {
                @match it.last_batch_seconds_ago {
                    Some(seconds) => { (duration(seconds)) " ago" },
                    None => span.quiet { "–" },
                }
            }
            td.number data-label="Lost records" { (grouped(it.missing)) }
        }
    }
}
