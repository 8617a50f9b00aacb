//! Generations that are not read: under construction, with a progress bar, or on standby.

use maud::{Markup, html};

use crate::{
    operations::{
        figures::{duration, grouped, rate},
        status::{generations::GenerationStatus, projection::ProjectionStatus},
    },
    surfaces::console::{figures::stamp, lag_samples::LagSamples},
};

pub(super) fn section(projections: &[ProjectionStatus], samples: &LagSamples) -> Markup {
    let others = projections.iter().flat_map(|projection| {
        let others = projection.generations.iter();
        let others = others.filter(|it| !it.is_read());
        others.map(|it| (projection.projection, it))
    });
    let others: Vec<_> = others.collect();
    html! {
        section {
            h2 { "Generations" }
            @if others.is_empty() {
                p.quiet { "None but those that are read: nothing is being rebuilt." }
            }
            @for (projection, generation) in others {
                (bar(projection, generation, samples.rate(projection, generation.generation)))
            }
        }
    }
}

fn bar(projection: &str, it: &GenerationStatus, events_per_second: Option<f64>) -> Markup {
    let name = format!("{projection}, generation {}", it.generation);
    let rest = (it.head - it.position).max(0);
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let time_left = events_per_second
        .filter(|it| rest > 0 && *it >= 1.0)
        .map(|it| rest as f64 / it);
    html! {
        div.generation {
            p { b { (name) } " · " (it.phase.replace('_', " ")) }
            @if it.phase != "standby" {
                progress max=(it.head.max(1)) value=(it.position) aria-label=(name) {}
            }
            p.figures {
                (percent(it)) " · " (grouped(it.position)) " of " (grouped(it.head)) " events"
                @if let Some(events_per_second) = events_per_second {
                    " · " (rate(events_per_second)) " events/s"
                    @if let Some(time_left) = time_left { " · " (duration(time_left)) " to go" }
                }
            }
            (life(it))
        }
    }
}

/// Shows the times of a generation, and whether the generation may be dropped.
fn life(it: &GenerationStatus) -> Markup {
    html! {
        p.figures {
            "Begun " (stamp(&it.created_at))
            @if let Some(at) = &it.compared_at { "; compared with the log " (stamp(at)) }
            @if let Some(at) = &it.last_active_at { "; read until " (stamp(at)) }
            @if it.may_be_dropped {
                "; may go: " code { "projector drop " (it.projection) " " (it.generation) }
            }
        }
    }
}

/// Returns the progress; never 100 % before the last event.
fn percent(it: &GenerationStatus) -> String {
    let done = it.position.saturating_mul(1_000) / it.head.max(1);
    format!("{}.{} %", done / 10, done % 10)
}
