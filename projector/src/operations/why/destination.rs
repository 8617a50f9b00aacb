//! Destination of a link over time, from its events.

#[cfg(test)]
mod tests;

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    envelope::RecordedEvent,
    event::Subject,
    event_store::log::StreamPart,
    id::LinkId,
    link::LinkState,
    shard::Shard,
};
use sqlx::PgPool;
use time::{Date, Duration, OffsetDateTime, UtcOffset};

use super::stream;

/// Maximum number of events that are read for a day; of a day with more changes, the last
/// ones are shown.
const CHANGES_MAX: i64 = 200;

/// Day in UTC.
#[derive(Debug, Clone, Copy)]
struct Day {
    begin: OffsetDateTime,
    /// Beginning of the next day.
    end: OffsetDateTime,
}

/// Destination of a link at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationState {
    /// The link was not created yet.
    NotYet,
    /// The link led to this address.
    At(String),
    /// The link was out of service, with this destination.
    Disabled(String),
    /// The link was deleted.
    Deleted,
    /// More changes came before than are read.
    ChangesNotRead,
    /// This release cannot read the event.
    Unreadable,
}

/// Part of a day without a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Time of the change that began the part, or beginning of the day.
    pub from: OffsetDateTime,
    /// Time of the next change, or end of the day.
    pub until: OffsetDateTime,
    /// Destination of the link in the meantime.
    pub destination: DestinationState,
}

impl Day {
    fn of(date: Date) -> Self {
        let begin = date.midnight().assume_offset(UtcOffset::UTC);
        Self {
            begin,
            end: begin.saturating_add(Duration::DAY),
        }
    }
}

/// Returns the state of the link after an event of its stream; `None` if this release cannot read
/// the event.
pub(super) fn state_after(event: &RecordedEvent) -> Option<LinkState> {
    let link = event.link_after().ok()??;
    Some(link.state)
}

impl DestinationState {
    /// Returns the destination of the link after an event of its stream.
    pub(super) fn after(event: &RecordedEvent) -> Self {
        state_after(event).map_or(Self::Unreadable, Self::of)
    }

    fn of(state: LinkState) -> Self {
        match (state.deleted, state.disabled_by()) {
            (true, _) => Self::Deleted,
            (false, Some(_)) => Self::Disabled(state.destination_url),
            (false, None) => Self::At(state.destination_url),
        }
    }
}

/// Returns the destinations of the link on a day, from morning to night.
pub(super) async fn on_day(
    pool: &PgPool,
    shard: Shard,
    link_id: LinkId,
    date: Date,
) -> anyhow::Result<Vec<Stretch>> {
    let day = Day::of(date);
    let part = StreamPart {
        recorded_before: Some(day.end),
        ..StreamPart::newest(shard, Subject::Link(link_id), CHANGES_MAX)
    };
    let events = stream::read(pool, &part).await?;
    Ok(stretches(&events, day, SystemClock.now()))
}

/// Returns the destinations of the link on a day, up to `now`; `newest_first` are the last
/// [`CHANGES_MAX`] events before the end of the day.
fn stretches(newest_first: &[RecordedEvent], day: Day, now: OffsetDateTime) -> Vec<Stretch> {
    let mut until = day.end.min(now);
    let mut stretches = Vec::new();
    for event in newest_first {
        // The clocks of several processes differ: the stream decides the order.
        let from = event.recorded_at.clamp(day.begin, day.end);
        if from < until {
            stretches.push(Stretch {
                from,
                until,
                destination: DestinationState::after(event),
            });
            until = from;
        }
    }
    if day.begin < until {
        let is_beginning = newest_first.last().is_none_or(|event| event.version == 1);
        stretches.push(Stretch {
            from: day.begin,
            until,
            destination: if is_beginning {
                DestinationState::NotYet
            } else {
                DestinationState::ChangesNotRead
            },
        });
    }
    stretches.reverse();
    stretches
}
