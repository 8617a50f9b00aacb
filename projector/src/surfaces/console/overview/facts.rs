//! Relay and oldest snapshot.

use maud::{Markup, html};

use crate::operations::{
    figures::{duration, grouped},
    status::{relay::PublishingStatus, snapshot::HeldSnapshots},
};

pub(super) fn relay(relay: &PublishingStatus) -> Markup {
    html! {
        section {
            h2 { "Relay" }
            dl.pairs {
                dt { "State" }
                dd {
                    @if let Some(refusal) = &relay.refusal {
                        span.bad { "✗ publishes nothing: " } (refusal)
                    } @else if relay.is_paused {
                        span.warn { "‖ paused" }
                        @if let Some(by) = &relay.paused_by { " " bdi { (by.to_string()) } }
                    } @else {
                        span.good { "✓ publishes" }
                    }
                }
                dt { "Backlog" } dd { (grouped(relay.backlog_events)) " events" }
                dt { "Oldest of them" } dd { (duration(relay.backlog_seconds)) }
                dt { "Published by" } dd { (owners(relay)) }
            }
        }
    }
}

fn owners(relay: &PublishingStatus) -> Markup {
    let mut owners: Vec<_> = relay
        .shards
        .iter()
        .filter_map(|it| it.owner.as_deref())
        .collect();
    owners.sort_unstable();
    owners.dedup();
    html! {
        @if owners.is_empty() { span.quiet { "nobody" } }
        @for (index, owner) in owners.iter().enumerate() {
            @if index > 0 { ", " }
            (owner)
        }
    }
}

pub(super) fn snapshot(snapshots: &HeldSnapshots) -> Markup {
    html! {
        section {
            h2 { "Oldest snapshot" }
            dl.pairs {
                @match &snapshots.oldest {
                    None => { dt { "Age" } dd { span.good { "✓ none is held" } } },
                    Some(oldest) => {
                        dt { "Age" } dd { (duration(oldest.age_seconds)) }
                        dt { "Held by" }
                        dd {
                            (oldest.user)
                            @if let Some(pid) = oldest.pid { ", process " (pid) }
                        }
                        dt { "Which is" } dd { (oldest.application_name) " " (oldest.state) }
                    },
                }
            }
            @if !snapshots.is_complete {
                p.summary {
                    "Sessions of other users cannot be seen here: an older one may be held."
                }
            }
        }
    }
}
