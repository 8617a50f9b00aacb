//! Deliveries of the topic, and the events that followers find.

use linkledger_core::{
    envelope::{Metadata, RecordedEvent},
    id::{AccountId, EventId},
    shard::Shard,
};
use proptest::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;

const EPOCH: i32 = 2;

fn event(position: Position, log_epoch: i32) -> PublishedEvent {
    let recorded = RecordedEvent {
        shard: Shard::new(3).unwrap(),
        position,
        stream_id: Uuid::nil(),
        version: position,
        account_id: AccountId::from_uuid(Uuid::nil()),
        event_id: EventId::from_uuid(Uuid::nil()),
        event_type: "CreditsGranted".to_owned(),
        schema_version: log_epoch.try_into().unwrap(),
        payload: String::new(),
        metadata: Metadata::default(),
        recorded_at: OffsetDateTime::UNIX_EPOCH,
    };
    PublishedEvent::new(recorded, log_epoch)
}

fn delivered(positions: impl IntoIterator<Item = Position>) -> (RecentEvents, Vec<Continuation>) {
    let mut recent = RecentEvents::default();
    let continuations = positions.into_iter();
    let continuations = continuations.map(|position| recent.push(event(position, EPOCH)));
    let continuations = continuations.collect();
    (recent, continuations)
}

fn after(recent: &RecentEvents, epoch: i32, position: Position) -> Vec<Position> {
    let events = recent.after(epoch, position).into_iter().flatten();
    events.map(|event| event.recorded().position).collect()
}

#[test]
fn follower_takes_what_follows_its_position() {
    let (recent, continuations) = delivered([5, 6, 7]);
    assert_eq!(
        continuations,
        [Continuation::Next, Continuation::Next, Continuation::Next]
    );
    assert_eq!(after(&recent, EPOCH, 4), [5, 6, 7]);
    assert_eq!(after(&recent, EPOCH, 6), [7]);
    assert!(after(&recent, EPOCH, 7).is_empty());
    // The topic has not delivered event 4 to this process.
    assert!(after(&recent, EPOCH, 3).is_empty());
}

#[test]
fn gap_begins_anew_and_is_reported_once() {
    let (recent, continuations) = delivered([5, 8, 9]);
    let gap = Continuation::Gap(6..=7);
    assert_eq!(continuations, [Continuation::Next, gap, Continuation::Next]);
    assert!(after(&recent, EPOCH, 4).is_empty());
    assert_eq!(after(&recent, EPOCH, 7), [8, 9]);
}

#[test]
fn repeated_events_are_dropped() {
    let (recent, continuations) = delivered([5, 6, 5, 6, 7]);
    let repeated = continuations
        .iter()
        .filter(|it| **it == Continuation::Repeated);
    assert_eq!(repeated.count(), 2);
    assert_eq!(after(&recent, EPOCH, 4), [5, 6, 7]);
}

#[test]
fn applied_events_are_forgotten_and_the_next_one_continues() {
    let (mut recent, _) = delivered([5, 6]);
    recent.drop_until(6);
    assert_eq!(recent.len(), 0);
    assert_eq!(recent.push(event(6, EPOCH)), Continuation::Repeated);
    assert_eq!(recent.push(event(7, EPOCH)), Continuation::Next);
    assert_eq!(recent.push(event(9, EPOCH)), Continuation::Gap(8..=8));
}

#[test]
fn event_of_later_epoch_begins_anew() {
    let (mut recent, _) = delivered([5, 6]);
    assert_eq!(recent.push(event(3, EPOCH + 1)), Continuation::Next);
    assert_eq!(recent.push(event(7, EPOCH)), Continuation::Repeated);
    assert!(after(&recent, EPOCH, 4).is_empty());
    assert_eq!(after(&recent, EPOCH + 1, 2), [3]);
}

proptest! {
    /// Whatever comes, a follower finds the next events without a gap, and only those of its epoch.
    #[test]
    fn found_events_are_consecutive(
        delivered in proptest::collection::vec((1..12_i64, EPOCH..EPOCH + 2, 0..12_i64), 0..60),
        position in 0..12_i64,
        epoch in EPOCH..EPOCH + 2,
    ) {
        let mut recent = RecentEvents::default();
        for (delivered, log_epoch, dropped) in delivered {
            recent.push(event(delivered, log_epoch));
            recent.drop_until(dropped);
            let found = after(&recent, epoch, position);
            let expected: Vec<Position> = (position + 1..).take(found.len()).collect();
            prop_assert_eq!(&found, &expected);
            let events = recent.after(epoch, position).into_iter().flatten();
            for event in events {
                prop_assert_eq!(i32::from(event.recorded().schema_version), epoch);
            }
            if let Some(last) = found.last() {
                prop_assert_eq!(recent.end(), Some((epoch, *last)));
            }
        }
    }
}
