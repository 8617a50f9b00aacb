//! Table of the projections, and of the shards of each.

use maud::{Markup, html};

use crate::{
    operations::{
        figures::{duration, grouped, rate},
        status::projection::{ProjectionShard, ProjectionState, ProjectionStatus},
    },
    surfaces::console::{figures::stamp, lag_samples::LagSamples, sparkline::sparkline},
};

pub(super) fn section(projections: &[ProjectionStatus], samples: &LagSamples) -> Markup {
    html! {
        section {
            h2 { "Projections" }
            table.projections {
                caption.visually-hidden { "Projections" }
                thead { tr {
                    th scope="col" { "Projection" } th scope="col" { "State" }
                    th.number scope="col" { "Generation" } th.number scope="col" { "Position" }
                    th.number scope="col" { "Lag" } th.number scope="col" { "Age" }
                    th.number scope="col" { "Events/s" } th.number scope="col" { "Parked" }
                    th scope="col" { "Lag, last 10 min" }
                } }
                tbody { @for it in projections { (row(it, samples)) } }
            }
            @for it in projections { (shards(it)) }
        }
    }
}

fn row(it: &ProjectionStatus, samples: &LagSamples) -> Markup {
    let label = format!(
        "Lag of {} in the last ten minutes, in events",
        it.projection
    );
    html! {
        tr {
            th scope="row" { (it.projection) }
            td data-label="State" { div {
                (state(it.state))
                @if let Some(since) = &it.paused_at {
                    br;
                    span.quiet {
                        "since " (stamp(since))
                        @if let Some(by) = &it.paused_by { " " bdi { (by.to_string()) } }
                    }
                }
            } }
            td.number data-label="Generation" { (it.active_generation) }
            td.number data-label="Position" { (grouped(it.position)) }
            td.number data-label="Lag" { (grouped(it.lag_events)) }
            td.number data-label="Age" { (duration(it.lag_seconds)) }
            td.number data-label="Events/s" { (rate(it.events_per_second)) }
            td.number data-label="Parked" { (it.parked_accounts) }
            td data-label="Lag, last 10 min" {
                (sparkline(&label, &samples.lags(it.projection)))
            }
        }
    }
}

/// Shows the state in words and with a sign, so that colour is not needed.
fn state(state: ProjectionState) -> Markup {
    let (class, sign) = match state {
        ProjectionState::Live => ("good", "✓"),
        ProjectionState::CatchingUp => ("warn", "…"),
        ProjectionState::Parked => ("warn", "⚠"),
        ProjectionState::Paused => ("warn", "‖"),
        ProjectionState::Unattended => ("bad", "?"),
        ProjectionState::Refused => ("bad", "✗"),
    };
    html! { span class=(class) { (sign) " " (state.name()) } }
}

fn shards(it: &ProjectionStatus) -> Markup {
    html! {
        details id={ "shards-of-" (it.projection) } {
            summary { (it.projection) ", shard by shard" }
            table.shards {
                caption.visually-hidden { "Shards of " (it.projection) }
                thead { tr {
                    th.number scope="col" { "Shard" } th scope="col" { "State" }
                    th.number scope="col" { "Position" } th.number scope="col" { "Head" }
                    th.number scope="col" { "Lag" } th.number scope="col" { "Age" }
                    th scope="col" { "Owned by" } th scope="col" { "Last error" }
                } }
                tbody { @for shard in &it.shards { (shard_row(shard)) } }
            }
        }
    }
}

fn shard_row(it: &ProjectionShard) -> Markup {
    html! {
        tr {
            th.number scope="row" { (it.shard) }
            td data-label="State" { (state(it.state)) }
            td.number data-label="Position" { (grouped(it.position)) }
            td.number data-label="Head" { (grouped(it.head)) }
            td.number data-label="Lag" { (grouped(it.lag_events)) }
            td.number data-label="Age" { (duration(it.lag_seconds)) }
            td data-label="Owned by" { div { (keeper(it)) } }
            td.what data-label="Last error" { div {
                @match &it.last_error {
                    Some(error) => { (duration(error.seconds_ago)) " ago: " (error.text) },
                    None => span.quiet { "–" },
                }
            } }
        }
    }
}

/// Shows the projector that owns the shard, its release, and the age of its claim.
fn keeper(it: &ProjectionShard) -> Markup {
    html! {
        @match &it.owner {
            Some(owner) => bdi { (owner) },
            None => span.quiet { "nobody" },
        }
        @if let Some(version) = &it.version { " " span.quiet { (version) } }
        @if let Some(silence) = it.renewed_seconds_ago.filter(|_| it.state == ProjectionState::Unattended) {
            span.bad { ", silent for " (duration(silence)) }
        }
    }
}
