use std::collections::BTreeMap;

use linkledger_core::{
    clock::{Clock as _, new_uuid},
    envelope::Metadata,
    id::EventId,
};
use linkledger_testing::FixedClock;
use proptest::prelude::*;
use time::Duration;

use super::*;

/// Time of recording of each event of each shard in order, and whether the filter matches.
type Log = Vec<Vec<(i64, bool)>>;

fn event(shard: Shard, position: Position, recorded: i64) -> RecordedEvent {
    let now = FixedClock::default().now();
    let account_id = AccountId::from_uuid(new_uuid(now));
    RecordedEvent {
        shard,
        position,
        stream_id: account_id.uuid(),
        version: 1,
        account_id,
        event_id: EventId::from_uuid(new_uuid(now)),
        event_type: String::new(),
        schema_version: 1,
        payload: String::new(),
        metadata: Metadata::default(),
        recorded_at: now + Duration::seconds(recorded),
    }
}

/// Returns the answer of the database.
fn look(log: &Log, cursor: EventsCursor, length: i64) -> Vec<ShardEvents> {
    let looked = Shard::all().zip(log).filter_map(|(shard, events)| {
        let before = cursor.of(shard);
        let from = (before - length).max(1);
        let at = |position: i64| events[usize::try_from(position - 1).unwrap()];
        let found = (from..before).rev().filter(|position| at(*position).1);
        let found = found.map(|position| event(shard, position, at(position).0));
        let found: Vec<_> = found.take(PAGE_EVENTS).collect();
        let began_at = (from < before).then(|| event(shard, from, at(from).0).recorded_at);
        let span = PositionSpan {
            shard,
            from,
            before,
        };
        (from < before).then(|| ShardEvents::at(span, found, began_at))
    });
    looked.collect()
}

fn log() -> impl Strategy<Value = Log> {
    let event = (0_i64..400, prop::bool::weighted(0.4));
    prop::collection::vec(prop::collection::vec(event, 0..120), 16)
}

/// Returns the events of all pages in order.
fn pages(log: &Log, length: i64) -> Vec<RecordedEvent> {
    let heads = log
        .iter()
        .map(|events| i64::try_from(events.len()).unwrap());
    let mut cursor = EventsCursor(PerShard::default());
    for (before, head) in cursor.0.iter_mut().zip(heads) {
        *before = head + 1;
    }
    let mut shown = Vec::new();
    while cursor.is_before_any() {
        let (events, next) = merge(look(log, cursor, length));
        assert!(events.len() <= PAGE_EVENTS);
        assert_ne!(next, cursor, "each page gets on");
        assert_eq!(EventsCursor::parse(&next.to_string()), Some(next));
        shown.extend(events);
        cursor = next;
    }
    shown
}

fn by_shard(events: &[RecordedEvent]) -> BTreeMap<Shard, Vec<Position>> {
    let mut positions: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events {
        let shard = positions.entry(event.shard).or_default();
        shard.push(event.position);
    }
    positions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn pages_show_every_matching_event_once(
        log in log(), length in 1_i64..80,
    ) {
        let expected = Shard::all().zip(&log).map(|(shard, events)| {
            let positions = (1_i64..).zip(events).filter(|(_, (_, wanted))| *wanted);
            let mut positions: Vec<_> = positions.map(|(position, _)| position).collect();
            positions.reverse();
            (shard, positions)
        });
        let expected: BTreeMap<_, _> = expected.filter(|(_, it)| !it.is_empty()).collect();
        prop_assert_eq!(by_shard(&pages(&log, length)), expected);
    }

    #[test]
    fn equal_clocks_give_newest_first_across_shards(
        mut log in log(), length in 1_i64..80,
    ) {
        for shard in &mut log {
            shard.sort_unstable();
        }
        let shown = pages(&log, length);
        prop_assert!(shown.is_sorted_by(|a, b| a.recorded_at >= b.recorded_at));
    }
}

#[test]
fn malformed_cursor_is_refused() {
    let zeros = ["0"; 16].join(".");
    assert!(EventsCursor::parse(&zeros).is_some());
    let too_long = format!("{zeros}.0");
    let negative = zeros.replacen('0', "-1", 1);
    for text in ["", "1", "1.2", &too_long, &negative, "0.x"] {
        assert!(EventsCursor::parse(text).is_none(), "{text}");
    }
}
