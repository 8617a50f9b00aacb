//! The newest events of all shards as one list, page by page.
//!
//! A position is a place in one shard; between shards only the time of recording tells what came
//! first. No index leads to the events of an account or of a type, so for those the shards are
//! looked through backwards, a bounded part for each page; what was looked at in vain is said.

#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use linkledger_core::{
    envelope::RecordedEvent,
    event_store::log::{self, NewestFilter, PerShard, PositionSpan, ReadFrom},
    id::AccountId,
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;

/// Events on a page.
pub(super) const PAGE_EVENTS: usize = 50;
/// Events that are looked at for a page in one shard, when it is the only one.
const ONE_SHARD_SPAN: i64 = 20_000;
/// The same in each of all shards.
const ALL_SHARDS_SPAN: i64 = 2_000;

/// Which events are wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) account_id: Option<AccountId>,
    pub(super) event_type: Option<String>,
}

/// Before which position a page begins, by shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor(PerShard<Position>);

/// A page.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) events: Vec<RecordedEvent>,
    /// Where the next page begins; none at the beginning of the log.
    pub(super) next: Option<Cursor>,
    /// How many events were looked at.
    pub(super) looked_at: i64,
}

/// A page of the events that are wanted, the newest first.
pub(super) async fn find(
    pool: &PgPool,
    wanted: &Wanted,
    cursor: Option<Cursor>,
) -> sqlx::Result<Found> {
    let end = Cursor(log::heads(pool).await?.map(|head| head + 1));
    let spans = wanted.spans(cursor.map_or(end, |cursor| cursor.at_most(end)));
    let newest = NewestFilter {
        account_id: wanted.account_id,
        event_type: wanted.event_type.as_deref(),
        limit: i64::try_from(PAGE_EVENTS).expect("a few"),
    };
    let mut events = log::read_before(pool, &spans, newest).await?;
    let beginnings: Vec<ReadFrom> = spans.iter().map(right_before).collect();
    let recorded = log::recorded_after(pool, &beginnings).await?;
    let looked = spans.iter().zip(recorded).map(|(span, began_at)| {
        let own = events.extract_if(.., |event| event.shard == span.shard);
        Looked::at(*span, own.collect(), began_at)
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

impl Wanted {
    /// What is looked at for a page.
    fn spans(&self, cursor: Cursor) -> Vec<PositionSpan> {
        let only = self.account_id.map(Shard::of);
        let length = match (only, &self.event_type) {
            (Some(_), _) => ONE_SHARD_SPAN,
            (None, Some(_)) => ALL_SHARDS_SPAN,
            // Each of them is wanted.
            (None, None) => i64::try_from(PAGE_EVENTS).expect("a few"),
        };
        let shards = Shard::all().filter(|shard| only.is_none_or(|only| only == *shard));
        shards
            .map(|shard| {
                let before = cursor.0[shard.index()];
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
}

/// What was looked at of a shard.
#[derive(Debug)]
struct Looked {
    shard: Shard,
    /// What was found, the last one first; the next to be shown is at the end.
    unshown: Vec<RecordedEvent>,
    /// Everything from here on was looked at.
    to: Position,
    /// When the first event that was looked at was recorded; nothing that was not is later. None
    /// if there is nothing before.
    back_to: Option<OffsetDateTime>,
}

impl Looked {
    /// `newest_first` is what was found, perhaps as much as there is room for on a page.
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

    /// How late the next event of this shard is, or may be; true if it is there to be shown.
    fn next(&self) -> Option<(OffsetDateTime, bool)> {
        let unshown = self.unshown.last().map(|event| (event.recorded_at, true));
        unshown.or(self.back_to.map(|back_to| (back_to, false)))
    }
}

/// The newest of what was found, as long as nothing that was not looked at could be newer; and
/// where to go on.
fn merge(mut looked: Vec<Looked>) -> (Vec<RecordedEvent>, Cursor) {
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
    let mut next = Cursor(PerShard::default());
    for shard in looked {
        let unshown = shard.unshown.last().map(|event| event.position + 1);
        next.0[shard.shard.index()] = unshown.unwrap_or(shard.to);
    }
    (page, next)
}

impl Cursor {
    fn at_most(mut self, end: Self) -> Self {
        for (before, end) in self.0.iter_mut().zip(end.0) {
            *before = end.min(*before);
        }
        self
    }

    /// Whether there is anything before it.
    fn is_before_any(&self) -> bool {
        self.0.iter().any(|before| *before > 1)
    }

    fn of(&self, shard: Shard) -> Position {
        self.0[shard.index()]
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, before) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "." };
            write!(f, "{separator}{before}")?;
        }
        Ok(())
    }
}

/// The text is not what [`Cursor`] is shown as.
#[derive(Debug)]
pub(super) struct NoCursor;

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let mut cursor = Self(PerShard::default());
        let mut parts = text.split('.');
        for before in &mut cursor.0 {
            let part = parts.next().ok_or(NoCursor)?;
            *before = part.parse().map_err(|_| NoCursor)?;
            if *before < 0 {
                return Err(NoCursor);
            }
        }
        match parts.next() {
            None => Ok(cursor),
            Some(_) => Err(NoCursor),
        }
    }
}
