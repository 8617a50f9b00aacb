//! Pages of the log: the events of some shards after a place, which a cursor names, or the last ones.
//!
//! The events of a shard come in its order; those of several shards are merged by their times. No index serves a
//! filter, so a page looks at a bounded number of events, and may have few of them, or none.

use std::collections::VecDeque;

use linkledger_core::{
    cursor::Place,
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::log::{
    self, EventFilter, ListedEvent, LogEnd, PositionSpan, read_last_matching, read_matching,
};
use linkledger_http::{problem::Problem, storage::read_in_time};
use sqlx::PgPool;

/// Events that a page with a filter looks at, in all shards together.
const SCANNED_MAX: i64 = 16_000;

/// Place in the log: the last position of each of some shards before the place, in the order of the shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventsPlace {
    /// Epoch of the log: after a restore, positions name other events.
    epoch: i32,
    after: Vec<Position>,
}

impl Place for EventsPlace {
    fn to_bytes(&self) -> Vec<u8> {
        let positions = self.after.iter();
        let positions = positions.flat_map(|position| position.to_be_bytes());
        self.epoch
            .to_be_bytes()
            .into_iter()
            .chain(positions)
            .collect()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (epoch, rest) = bytes.split_first_chunk::<4>()?;
        let (positions, others) = rest.as_chunks::<8>();
        let positions = positions.iter().copied().map(Position::from_be_bytes);
        others.is_empty().then(|| Self {
            epoch: i32::from_be_bytes(*epoch),
            after: positions.collect(),
        })
    }
}

/// Events that a request asks for.
#[derive(Debug, Clone)]
pub(super) struct WantedEvents {
    /// Shards to read.
    pub(super) shards: Vec<Shard>,
    /// Account of the events; `None` for all accounts.
    pub(super) account_id: Option<AccountId>,
    /// Type of the events; `None` for all types.
    pub(super) event_type: Option<String>,
    /// Most events on the page.
    pub(super) limit: u8,
}

/// The page that a request asks for.
pub(super) enum WantedPage {
    /// The page after a place; the first page without one.
    After(Option<EventsPlace>),
    /// The page that ends where the log ends.
    Last,
}

/// A page of events.
pub(super) struct EventsOnPage {
    pub(super) events: Vec<ListedEvent>,
    /// Place right after the page.
    pub(super) next: EventsPlace,
    /// True if the log has events after the page, wanted or not.
    pub(super) has_more: bool,
}

/// Reads a page.
///
/// # Errors
/// Returns `invalid_cursor` if the place is of another epoch or of other shards, and `storage_unavailable`.
pub(super) async fn read(
    log: &PgPool,
    wanted: &WantedEvents,
    page: WantedPage,
) -> Result<EventsOnPage, Problem> {
    let end = read_in_time(|| log::end(log)).await?;
    let filter = EventFilter {
        account_id: wanted.account_id,
        event_type: wanted.event_type.as_deref(),
        limit: wanted.limit.into(),
    };
    match page {
        WantedPage::After(place) => {
            let spans = wanted.spans(place, &end)?;
            let events = read_in_time(|| read_matching(log, &spans, filter)).await?;
            Ok(page_of(&spans, events, wanted.limit, &end))
        }
        WantedPage::Last => {
            let spans = wanted.last_spans(&end);
            let events = read_in_time(|| read_last_matching(log, &spans, filter)).await?;
            Ok(last_page_of(&spans, events, wanted.limit, &end))
        }
    }
}

impl WantedEvents {
    /// Returns the positions of each shard that the page looks at.
    fn spans(
        &self,
        place: Option<EventsPlace>,
        end: &LogEnd,
    ) -> Result<Vec<PositionSpan>, Problem> {
        let place = place.unwrap_or_else(|| EventsPlace {
            epoch: end.epoch,
            after: vec![0; self.shards.len()],
        });
        if place.epoch != end.epoch || place.after.len() != self.shards.len() {
            return Err(Problem::invalid_cursor(
                "The log was restored since the cursor was given: begin without a cursor.",
            ));
        }
        let length = self.positions_per_shard();
        let shards = self.shards.iter().zip(place.after);
        let spans = shards.map(|(shard, after)| {
            let head = end.heads[shard.index()];
            // A place can be any: no cursor of the service is outside of the log.
            let after = after.clamp(0, head);
            PositionSpan {
                shard: *shard,
                from: after + 1,
                before: head.min(after + length) + 1,
            }
        });
        Ok(spans.collect())
    }

    /// Returns the last positions of each shard, as many as a page looks at.
    fn last_spans(&self, end: &LogEnd) -> Vec<PositionSpan> {
        let length = self.positions_per_shard();
        let spans = self.shards.iter().map(|shard| {
            let head = end.heads[shard.index()];
            PositionSpan {
                shard: *shard,
                from: (head - length).max(0) + 1,
                before: head + 1,
            }
        });
        spans.collect()
    }

    /// Returns how many positions of a shard a page looks at. Without a filter each is on the page.
    fn positions_per_shard(&self) -> i64 {
        if self.account_id.is_none() && self.event_type.is_none() {
            return self.limit.into();
        }
        let shards = i64::try_from(self.shards.len()).unwrap_or(i64::MAX);
        SCANNED_MAX / shards.max(1)
    }
}

/// Events of a shard that can be on the page, in order.
struct ShardEvents {
    events: VecDeque<ListedEvent>,
    /// Last position before the place after the page.
    after: Position,
    /// Last position up to which no event that is wanted is missing.
    read_up_to: Position,
}

impl ShardEvents {
    fn new(span: &PositionSpan, events: VecDeque<ListedEvent>, limit: u8) -> Self {
        // Of as many events as the limit, the last one can be followed by others.
        let is_cut = events.len() >= usize::from(limit);
        let last = events.back().filter(|_| is_cut);
        let read_up_to = last.map_or(span.before - 1, |event| event.event.position);
        Self {
            after: span.from - 1,
            events,
            read_up_to,
        }
    }

    /// Takes the next event.
    fn take(&mut self) -> Option<ListedEvent> {
        let event = self.events.pop_front()?;
        self.after = event.event.position;
        Some(event)
    }

    /// Returns the last position before the place after the page: an event that has no room comes right after it.
    fn place(&self) -> Position {
        let next = self.events.front();
        next.map_or(self.read_up_to.max(self.after), |event| {
            event.event.position - 1
        })
    }
}

/// Merges the events of the shards, up to the limit.
fn page_of(
    spans: &[PositionSpan],
    events: Vec<ListedEvent>,
    limit: u8,
    end: &LogEnd,
) -> EventsOnPage {
    let shards = spans.iter().zip(by_span(spans, events));
    let mut shards: Vec<ShardEvents> = shards
        .map(|(span, events)| ShardEvents::new(span, events, limit))
        .collect();
    let page = (0..limit).map_while(|_| take_earliest(&mut shards));
    let events = page.collect();
    let after: Vec<Position> = shards.iter().map(ShardEvents::place).collect();
    let mut places = spans.iter().zip(&after);
    let has_more = places.any(|(span, after)| *after < end.heads[span.shard.index()]);
    EventsOnPage {
        events,
        next: EventsPlace {
            epoch: end.epoch,
            after,
        },
        has_more,
    }
}

/// Merges the last events of the shards, up to the limit.
fn last_page_of(
    spans: &[PositionSpan],
    events: Vec<ListedEvent>,
    limit: u8,
    end: &LogEnd,
) -> EventsOnPage {
    let mut of_span = by_span(spans, events);
    let newest_first = (0..limit).map_while(|_| take_latest(&mut of_span));
    let mut events: Vec<ListedEvent> = newest_first.collect();
    events.reverse();
    let heads = spans.iter().map(|span| end.heads[span.shard.index()]);
    EventsOnPage {
        events,
        next: EventsPlace {
            epoch: end.epoch,
            after: heads.collect(),
        },
        has_more: false,
    }
}

/// Returns the events of each span, in order.
fn by_span(spans: &[PositionSpan], events: Vec<ListedEvent>) -> Vec<VecDeque<ListedEvent>> {
    let mut of_span = vec![VecDeque::new(); spans.len()];
    for event in events {
        let mut shards = spans.iter().map(|span| span.shard);
        if let Some(index) = shards.position(|shard| shard == event.event.shard) {
            of_span[index].push_back(event);
        }
    }
    of_span
}

/// Takes the event that was recorded first among the next ones of all shards.
fn take_earliest(shards: &mut [ShardEvents]) -> Option<ListedEvent> {
    let next = shards.iter_mut().filter(|shard| !shard.events.is_empty());
    let earliest =
        next.min_by_key(|shard| shard.events.front().map(|event| event.event.recorded_at));
    earliest?.take()
}

/// Takes the event that was recorded last among the last ones of all shards.
fn take_latest(shards: &mut [VecDeque<ListedEvent>]) -> Option<ListedEvent> {
    let last = shards.iter_mut().filter(|events| !events.is_empty());
    let latest = last.max_by_key(|events| events.back().map(|event| event.event.recorded_at));
    latest?.pop_back()
}

#[cfg(test)]
mod tests {
    use linkledger_core::{
        cursor::CursorScope,
        envelope::{Metadata, RecordedEvent},
        id::EventId,
        shard::SHARD_COUNT,
    };
    use linkledger_http::problem::Code;
    use proptest::prelude::*;
    use time::{Duration, OffsetDateTime};
    use uuid::Uuid;

    use super::*;

    const EPOCH: i32 = 3;

    fn shard(number: usize) -> Shard {
        Shard::new(i64::try_from(number).unwrap()).unwrap()
    }

    fn end(heads: &[Position]) -> LogEnd {
        let mut end = LogEnd {
            log_id: Uuid::nil(),
            epoch: EPOCH,
            heads: [0; SHARD_COUNT as usize],
        };
        end.heads[..heads.len()].copy_from_slice(heads);
        end
    }

    /// Returns an event whose type is wanted or not, and whose time is a second for each position.
    fn event(shard: Shard, position: Position, is_wanted: bool) -> ListedEvent {
        let event = RecordedEvent {
            shard,
            position,
            stream_id: Uuid::nil(),
            version: position,
            account_id: AccountId::from_uuid(Uuid::nil()),
            event_id: EventId::from_uuid(Uuid::nil()),
            event_type: if is_wanted { "Wanted" } else { "Other" }.to_owned(),
            schema_version: 1,
            payload: "{}".to_owned(),
            metadata: Metadata::default(),
            recorded_at: OffsetDateTime::UNIX_EPOCH + Duration::seconds(position),
        };
        ListedEvent {
            event,
            metadata: "{}".to_owned(),
        }
    }

    /// Returns a log whose shards have events that are wanted or not.
    fn stored(log: &[Vec<bool>]) -> Vec<ListedEvent> {
        let of_shard = |(number, events): (usize, &Vec<bool>)| {
            let events = (1..).zip(events.clone());
            events.map(move |(position, it)| event(shard(number), position, it))
        };
        log.iter().enumerate().flat_map(of_shard).collect()
    }

    /// Returns the wanted events of each span.
    fn wanted_of(log: &[ListedEvent], spans: &[PositionSpan]) -> Vec<Vec<ListedEvent>> {
        let of_span = |span: &PositionSpan| -> Vec<ListedEvent> {
            let events = log.iter().filter(|event| {
                event.event.shard == span.shard
                    && (span.from..span.before).contains(&event.event.position)
            });
            let wanted = events.filter(|event| event.event.event_type == "Wanted");
            wanted.cloned().collect()
        };
        spans.iter().map(of_span).collect()
    }

    /// Returns what the statement for a page after a place would read.
    fn matching(log: &[ListedEvent], spans: &[PositionSpan], limit: u8) -> Vec<ListedEvent> {
        let of_spans = wanted_of(log, spans).into_iter();
        of_spans
            .flat_map(|events| events.into_iter().take(limit.into()))
            .collect()
    }

    /// Returns what the statement for the last page would read.
    fn last_matching(log: &[ListedEvent], spans: &[PositionSpan], limit: u8) -> Vec<ListedEvent> {
        let of_spans = wanted_of(log, spans).into_iter();
        of_spans
            .flat_map(|events| {
                let skipped = events.len().saturating_sub(limit.into());
                events.into_iter().skip(skipped)
            })
            .collect()
    }

    fn heads(log: &[Vec<bool>]) -> Vec<Position> {
        let lengths = log.iter().map(Vec::len);
        lengths
            .map(|length| Position::try_from(length).unwrap())
            .collect()
    }

    fn wanted(shards: usize, limit: u8) -> WantedEvents {
        WantedEvents {
            shards: (0..shards).map(shard).collect(),
            account_id: None,
            event_type: None,
            limit,
        }
    }

    #[test]
    fn places_round_trip_through_cursors() {
        let scope = CursorScope {
            list: "/admin/v1/events".to_owned(),
            filters: String::new(),
            account_id: AccountId::from_uuid(Uuid::nil()),
        };
        for after in [vec![], vec![7], vec![0, i64::MAX, i64::MIN]] {
            let place = EventsPlace {
                epoch: EPOCH,
                after,
            };
            let cursor = scope.cursor_after(&place);
            assert_eq!(scope.place_of(&cursor), Ok(place));
        }
        assert_eq!(EventsPlace::of_bytes(&[0; 3]), None);
        assert_eq!(EventsPlace::of_bytes(&[0; 11]), None);
    }

    #[test]
    fn any_place_is_harmless() {
        let wanted = wanted(2, 10);
        let end = end(&[5, 0]);
        let spans = |epoch, after: &[Position]| {
            let after = after.to_vec();
            let spans = wanted.spans(Some(EventsPlace { epoch, after }), &end);
            spans.map_err(|problem| problem.code)
        };
        for after in [[i64::MIN, i64::MIN], [i64::MAX, i64::MAX], [5, 0], [6, 1]] {
            let spans = spans(EPOCH, &after).unwrap();
            let in_log = |span: &PositionSpan| span.from >= 1 && span.before <= 6;
            assert!(spans.iter().all(in_log), "{spans:?}");
        }
        for (epoch, after) in [
            (EPOCH - 1, &[5, 0][..]),
            (EPOCH + 1, &[5, 0]),
            (EPOCH, &[5]),
            (EPOCH, &[5, 0, 0]),
        ] {
            assert_eq!(spans(epoch, after), Err(Code::InvalidCursor), "{after:?}");
        }
    }

    proptest! {
        #[test]
        fn scan_has_each_wanted_event_once_in_order(
            log in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..30), 1..4),
            limit in 1..6_u8,
        ) {
            let (end, wanted) = (end(&heads(&log)), wanted(log.len(), limit));
            let stored = stored(&log);
            let (mut seen, mut place) = (Vec::new(), None);
            for _ in 0..100 {
                let spans = wanted.spans(place, &end).unwrap();
                let page = page_of(&spans, matching(&stored, &spans, limit), limit, &end);
                prop_assert!(page.events.len() <= usize::from(limit));
                seen.extend(page.events);
                place = Some(page.next);
                if !page.has_more {
                    break;
                }
            }
            for number in 0..log.len() {
                let of = |events: &[ListedEvent]| -> Vec<Position> {
                    let wanted = events.iter().filter(|it| it.event.event_type == "Wanted");
                    let of_shard = wanted.filter(|it| it.event.shard == shard(number));
                    of_shard.map(|it| it.event.position).collect()
                };
                prop_assert_eq!(of(&seen), of(&stored));
            }
        }

        #[test]
        fn last_page_has_the_newest_events_and_leads_to_later_ones(
            log in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..30), 1..4),
            limit in 1..6_u8,
        ) {
            let (end, mut wanted) = (end(&heads(&log)), wanted(log.len(), limit));
            let stored = stored(&log);
            // With a filter, every event of these short shards is looked at.
            wanted.event_type = Some("Wanted".to_owned());
            let spans = wanted.last_spans(&end);
            let page = last_page_of(&spans, last_matching(&stored, &spans, limit), limit, &end);
            let times = |events: &[ListedEvent]| -> Vec<OffsetDateTime> {
                events.iter().map(|it| it.event.recorded_at).collect()
            };
            let mut expected = times(&wanted_of(&stored, &spans).concat());
            expected.sort_unstable();
            let skipped = expected.len().saturating_sub(limit.into());
            prop_assert_eq!(times(&page.events), &expected[skipped..]);
            prop_assert!(!page.has_more);

            let later = wanted.spans(Some(page.next), &end).unwrap();
            prop_assert!(later.iter().all(|span| span.from == span.before), "{later:?}");
        }
    }
}
