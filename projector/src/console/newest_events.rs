//! Newest events of all shards in one list, page by page.
//!
//! A position is a place in one shard; between shards only the time of recording gives an order. No
//! index finds the events of an account or of a type: for these filters the shards are read
//! backwards, a bounded part for each page, and the page shows the number of events that were read.

#[cfg(test)]
mod tests;

use std::fmt;

use linkledger_core::{
    envelope::RecordedEvent,
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::log::{self, NewestFilter, PerShard, PositionSpan, ReadFrom};
use sqlx::PgPool;
use time::OffsetDateTime;

/// Events on a page.
pub(super) const PAGE_EVENTS: usize = 50;
/// Maximum number of events that are read for a page of one shard.
const ONE_SHARD_SPAN: i64 = 20_000;
/// Maximum number of events that are read in each shard for a page of all shards.
const ALL_SHARDS_SPAN: i64 = 2_000;

/// Position in each shard that a page begins before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventsCursor(PerShard<Position>);

/// Page of events.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) events: Vec<RecordedEvent>,
    /// Start of the next page; `None` at the beginning of the log.
    pub(super) next: Option<EventsCursor>,
    /// Number of events that were read.
    pub(super) looked_at: i64,
}

/// Returns a page of the events of the account and the type, if given, newest first.
pub(super) async fn find(
    pool: &PgPool,
    account_id: Option<AccountId>,
    event_type: Option<&str>,
    cursor: Option<EventsCursor>,
) -> sqlx::Result<Found> {
    let end = EventsCursor(log::heads(pool).await?.map(|head| head + 1));
    let cursor = cursor.map_or(end, |cursor| cursor.at_most(end));
    let spans = spans(account_id, event_type, cursor);
    let newest = NewestFilter {
        account_id,
        event_type,
        limit: i64::try_from(PAGE_EVENTS).expect("a few"),
    };
    let mut events = log::read_before(pool, &spans, newest).await?;
    let beginnings: Vec<ReadFrom> = spans.iter().map(right_before).collect();
    let recorded = log::recording_times_after(pool, &beginnings).await?;
    let looked = spans.iter().zip(recorded).map(|(span, began_at)| {
        let own = events.extract_if(.., |event| event.shard == span.shard);
        ShardEvents::at(*span, own.collect(), began_at)
    });
    let (events, next) = merge(looked.collect());
    let looked_at = spans.iter().map(|span| span.before - next.of(span.shard));
    Ok(Found {
        looked_at: looked_at.sum(),
        next: next.is_before_any().then_some(next),
        events,
    })
}

fn right_before(span: &PositionSpan) -> ReadFrom {
    ReadFrom {
        shard: span.shard,
        after: span.from - 1,
    }
}

/// Returns the positions to read for a page.
fn spans(
    account_id: Option<AccountId>,
    event_type: Option<&str>,
    cursor: EventsCursor,
) -> Vec<PositionSpan> {
    let only = account_id.map(Shard::of);
    let length = match (only, event_type) {
        (Some(_), _) => ONE_SHARD_SPAN,
        (None, Some(_)) => ALL_SHARDS_SPAN,
        // Every event matches.
        (None, None) => i64::try_from(PAGE_EVENTS).expect("a few"),
    };
    let shards = Shard::all().filter(|shard| only.is_none_or(|only| only == *shard));
    shards
        .map(|shard| {
            let before = cursor.of(shard);
            let from = (before - length).max(1);
            PositionSpan {
                shard,
                from,
                before,
            }
        })
        .filter(|span| span.from < span.before)
        .collect()
}

/// Events that were read in a shard.
#[derive(Debug)]
struct ShardEvents {
    shard: Shard,
    /// Matching events, oldest first: the next one to show is the last element.
    unshown: Vec<RecordedEvent>,
    /// First position that was read.
    to: Position,
    /// Time of the first event that was read; no unread event is later. `None` if no event is
    /// before.
    back_to: Option<OffsetDateTime>,
}

impl ShardEvents {
    /// Creates the result; `newest_first` are the matching events, up to a page of them.
    fn at(
        span: PositionSpan,
        newest_first: Vec<RecordedEvent>,
        began_at: Option<OffsetDateTime>,
    ) -> Self {
        let last = newest_first
            .last()
            .filter(|_| newest_first.len() == PAGE_EVENTS);
        let (to, back_to) = match last {
            Some(last) => (last.position, Some(last.recorded_at)),
            None => (span.from, began_at),
        };
        let mut unshown = newest_first;
        unshown.reverse();
        Self {
            shard: span.shard,
            unshown,
            to,
            back_to: back_to.filter(|_| to > 1),
        }
    }

    /// Returns the latest possible time of the next event, and true if that event can be shown.
    fn next(&self) -> Option<(OffsetDateTime, bool)> {
        let unshown = self.unshown.last().map(|event| (event.recorded_at, true));
        unshown.or(self.back_to.map(|back_to| (back_to, false)))
    }
}

/// Returns the newest events, as long as no unread event can be newer, and the begin of the next
/// page.
fn merge(mut looked: Vec<ShardEvents>) -> (Vec<RecordedEvent>, EventsCursor) {
    let mut page = Vec::with_capacity(PAGE_EVENTS);
    while page.len() < PAGE_EVENTS {
        let newest = looked
            .iter_mut()
            .filter_map(|shard| Some((shard.next()?, shard)))
            .max_by_key(|(next, _)| *next);
        match newest {
            Some(((_, true), shard)) => page.extend(shard.unshown.pop()),
            Some(((_, false), _)) | None => break,
        }
    }
    let mut next = EventsCursor(PerShard::default());
    for shard in looked {
        let unshown = shard.unshown.last().map(|event| event.position + 1);
        next.0[shard.shard.index()] = unshown.unwrap_or(shard.to);
    }
    (page, next)
}

impl EventsCursor {
    /// Parses 16 positions with dots between them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut cursor = Self(PerShard::default());
        let mut parts = text.split('.');
        for before in &mut cursor.0 {
            let position = parts.next()?.parse().ok();
            *before = position.filter(|position| *position >= 0)?;
        }
        parts.next().is_none().then_some(cursor)
    }

    fn at_most(mut self, end: Self) -> Self {
        for (before, end) in self.0.iter_mut().zip(end.0) {
            *before = end.min(*before);
        }
        self
    }

    /// Returns true if an event is before the cursor.
    fn is_before_any(&self) -> bool {
        self.0.iter().any(|before| *before > 1)
    }

    fn of(&self, shard: Shard) -> Position {
        self.0[shard.index()]
    }
}

impl fmt::Display for EventsCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, before) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "." };
            write!(f, "{separator}{before}")?;
        }
        Ok(())
    }
}
