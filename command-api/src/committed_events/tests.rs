use linkledger_core::{
    envelope::Metadata,
    id::{AccountId, EventId},
    shard::Shard,
};
use proptest::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;

type Place = (usize, Position);

fn event((shard, position): Place) -> RecordedEvent {
    RecordedEvent {
        shard: Shard::all().nth(shard).unwrap(),
        position,
        stream_id: Uuid::nil(),
        version: 1,
        account_id: AccountId::from_uuid(Uuid::nil()),
        event_id: EventId::from_uuid(Uuid::nil()),
        event_type: "LinkCreated".to_owned(),
        schema_version: 1,
        payload: "{}".to_owned(),
        metadata: Metadata::default(),
        recorded_at: OffsetDateTime::UNIX_EPOCH,
    }
}

/// Events that are added one by one, just after their commits.
fn added(places: &[Place]) -> CommittedEvents {
    let committed = CommittedEvents::default();
    for place in places {
        committed.add(vec![event(*place)], Instant::now());
    }
    committed
}

/// Takes the events after these positions of the first shards.
fn taken(committed: &CommittedEvents, after: &[Position]) -> Option<Vec<Place>> {
    let place = |(shard, after): (Shard, &Position)| ReadFrom {
        shard,
        after: *after,
    };
    let places: Vec<ReadFrom> = Shard::all().zip(after).map(place).collect();
    let events = committed.take_after(&places)?;
    let place = |event: &RecordedEvent| (event.shard.index(), event.position);
    Some(events.iter().map(place).collect())
}

fn shuffled(heads: [Position; 3]) -> impl Strategy<Value = Vec<Place>> {
    let places = (0..3).zip(heads);
    let places = places.flat_map(|(shard, head)| (1..=head).map(move |position| (shard, position)));
    Just(places.collect::<Vec<_>>()).prop_shuffle()
}

proptest! {
    #[test]
    fn shuffled_commits_are_taken_in_order(
        (places, after, missing) in prop::array::uniform3(0..6_i64).prop_flat_map(|heads| {
            (shuffled(heads), heads.map(|head| 0..=head), any::<prop::sample::Index>())
        }),
        lacks_one: bool,
    ) {
        let mut expected: Vec<Place> = places.clone();
        expected.retain(|(shard, position)| *position > after[*shard]);
        expected.sort_unstable();
        let mut added_places = places.clone();
        // Whatever is missing but the last of a shard leaves a gap.
        let gap = lacks_one && !expected.is_empty() && {
            let missing = *missing.get(&expected);
            added_places.retain(|place| *place != missing);
            expected.retain(|place| *place != missing);
            expected.contains(&(missing.0, missing.1 + 1))
        };
        let expected = Some(expected).filter(|it| !it.is_empty() && !gap);
        let committed = added(&added_places);
        prop_assert_eq!(taken(&committed, &after), expected);
        prop_assert_eq!(taken(&committed, &after), None);
    }
}

#[test]
fn event_of_a_shard_without_a_place_is_not_taken() {
    assert_eq!(taken(&added(&[(0, 1)]), &[]), None);
    assert_eq!(taken(&added(&[(0, 1), (1, 1)]), &[0]), None);
}

#[test]
fn events_of_an_old_commit_are_dropped() {
    let old = Instant::now().checked_sub(AGE_MAX).unwrap();
    let committed = CommittedEvents::default();
    committed.add(vec![event((0, 1))], old);
    assert_eq!(taken(&committed, &[0]), None);
    committed.add(vec![event((0, 1))], old);
    committed.add(vec![event((0, 2))], Instant::now());
    assert_eq!(taken(&committed, &[1]), Some(vec![(0, 2)]));
}

#[test]
fn more_bytes_than_fit_are_left_to_the_log() {
    let committed = CommittedEvents::default();
    let mut large = event((0, 1));
    large.payload = "x".repeat(BYTES_MAX);
    committed.add(vec![large], Instant::now());
    committed.add(vec![event((0, 2))], Instant::now());
    assert_eq!(taken(&committed, &[0]), None);
    committed.add(vec![event((0, 3))], Instant::now());
    assert_eq!(taken(&committed, &[2]), Some(vec![(0, 3)]));
}
