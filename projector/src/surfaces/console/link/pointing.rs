//! States of a link on one day. Pure.

#[cfg(test)]
mod tests;

use linkledger_core::{
    envelope::RecordedEvent,
    event::Event,
    link::{ExistingLink, LinkEvent, LinkState},
};
use maud::{Markup, Render, html};
use time::{Date, Duration, OffsetDateTime, UtcOffset};

use crate::surfaces::console::figures::{address, instant};

/// Maximum number of events that are read for a day; of a day with more changes, the last
/// ones are shown.
pub(super) const CHANGES_MAX: i64 = 200;

/// Day in UTC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    pub(super) begin: OffsetDateTime,
    /// Beginning of the next day.
    pub(super) end: OffsetDateTime,
}

/// State of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pointing {
    NotYet,
    At(String),
    /// The link was out of service, with this destination.
    Disabled(String),
    Deleted,
    /// More changes came before than are read.
    Untold,
    /// This release cannot read the event.
    Unreadable,
}

/// Part of a day without a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: OffsetDateTime,
    pub(super) until: OffsetDateTime,
    pub(super) pointing: Pointing,
}

impl Day {
    pub(super) fn of(date: Date) -> Self {
        let begin = date.midnight().assume_offset(UtcOffset::UTC);
        Self {
            begin,
            end: begin.saturating_add(Duration::DAY),
        }
    }
}

impl Pointing {
    /// Returns the state of the link after an event of its stream.
    pub(super) fn after(event: &RecordedEvent) -> Self {
        match (event.decode(), &event.metadata.link) {
            (Ok(Event::Link(LinkEvent::Created(created))), _) => {
                Self::of(ExistingLink::new(created).state)
            }
            (Ok(_), Some(state)) => Self::of(state.clone()),
            (Ok(_), None) | (Err(_), _) => Self::Unreadable,
        }
    }

    fn of(state: LinkState) -> Self {
        match state {
            LinkState { deleted: true, .. } => Self::Deleted,
            LinkState {
                disabled: true,
                destination_url,
                ..
            } => Self::Disabled(destination_url),
            LinkState {
                destination_url, ..
            } => Self::At(destination_url),
        }
    }
}

/// Returns the states of the link on a day, up to `now`; `newest_first` are the last
/// [`CHANGES_MAX`] events before the end of the day.
pub(super) fn stretches(
    newest_first: &[RecordedEvent],
    day: Day,
    now: OffsetDateTime,
) -> Vec<Stretch> {
    let mut until = day.end.min(now);
    let mut stretches = Vec::new();
    for event in newest_first {
        // The clocks of several processes differ: the stream decides the order.
        let from = event.recorded_at.clamp(day.begin, day.end);
        if from < until {
            let pointing = Pointing::after(event);
            stretches.push(Stretch {
                from,
                until,
                pointing,
            });
            until = from;
        }
    }
    if day.begin < until {
        let is_beginning = newest_first.last().is_none_or(|event| event.version == 1);
        stretches.push(Stretch {
            from: day.begin,
            until,
            pointing: if is_beginning {
                Pointing::NotYet
            } else {
                Pointing::Untold
            },
        });
    }
    stretches.reverse();
    stretches
}

/// Shows the states of the day, from morning to night.
pub(super) fn table(day: &str, stretches: &[Stretch]) -> Markup {
    html! {
        @if stretches.is_empty() {
            p role="status" { "The day " (day) " has not begun." }
        } @else {
            table {
                caption { "On " (day) ", from its beginning on" }
                thead { tr {
                    th scope="col" { "From" } th scope="col" { "Until" }
                    th scope="col" { "It pointed to" }
                } }
                tbody {
                    @for stretch in stretches { tr {
                        td.when data-label="From" { (instant(stretch.from)) }
                        td.when data-label="Until" { (instant(stretch.until)) }
                        td.what data-label="It pointed to" { div { (stretch.pointing) } }
                    } }
                }
            }
            p.summary {
                "The short host follows within a second. While the account was suspended with "
                code { "--stop-redirects" } " (its ledger says when), visitors were told that the \
                link is gone."
            }
        }
    }
}

impl Render for Pointing {
    fn render(&self) -> Markup {
        match self {
            Self::NotYet => html! { "– it was not created yet" },
            Self::At(destination) => html! { "→ " (address(destination)) },
            Self::Disabled(destination) => html! {
                span.warn { "✗ nowhere: out of service" } ", else → " (address(destination))
            },
            Self::Deleted => html! { span.bad { "✗ nowhere: deleted" } },
            Self::Untold => html! { "… more changes than are shown here; the history has them" },
            Self::Unreadable => html! { span.bad { "⚠ an event that this release cannot read" } },
        }
    }
}
