//! Committed events on their way to the relay of the same process.
//!
//! A shortcut, which may lose events at any time: what it lacks, the relay reads from the log.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use linkledger_core::{
    envelope::RecordedEvent,
    event_store::log::{PerShard, ReadFrom},
    shard::Position,
};
use tokio::sync::Notify;

/// Highest number of waiting events; a relay that is further behind reads the log.
const EVENTS_MAX: usize = 4_000;
/// Age at which waiting events are dropped: the log may have been restored since they were committed.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Events that writers have committed and the relay has not taken.
#[derive(Default)]
pub struct CommittedEvents {
    waiting: Mutex<Waiting>,
    handed_over: Notify,
}

#[derive(Default)]
struct Waiting {
    events: Vec<RecordedEvent>,
    /// Instant at which the first of the events came.
    since: Option<Instant>,
}

impl CommittedEvents {
    /// Hands over the events of a commit, and wakes the relay.
    pub fn hand_over(&self, events: Vec<RecordedEvent>) {
        if events.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        if waiting.events.len() + events.len() > EVENTS_MAX {
            *waiting = Waiting::default();
        }
        waiting.since.get_or_insert_with(Instant::now);
        waiting.events.extend(events);
        drop(waiting);
        self.handed_over.notify_one();
    }

    /// Takes the waiting events, and returns those after the given places, by shard and position. Returns `None` if
    /// there are none, or if the log may have others before or instead of them.
    pub fn take_after(&self, places: &[ReadFrom]) -> Option<Vec<RecordedEvent>> {
        let Waiting { events, since } = std::mem::take(&mut *self.waiting());
        since
            .filter(|since| since.elapsed() < AGE_MAX)
            .and_then(|_| next_in_line(events, places))
    }

    /// Waits for the next commit.
    pub async fn next_commit(&self) {
        self.handed_over.notified().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while holding the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the events after the places, by shard and position; `None` if there are none, or if one is missing before
/// another. They come in the order of the commits' answers: of two writers, the one that committed later may come first.
fn next_in_line(mut events: Vec<RecordedEvent>, places: &[ReadFrom]) -> Option<Vec<RecordedEvent>> {
    let mut last = PerShard::<Position>::default();
    for place in places {
        last[place.shard.index()] = place.after;
    }
    events.retain(|event| event.position > last[event.shard.index()]);
    events.sort_unstable_by_key(|event| (event.shard, event.position));
    let follows = |event: &RecordedEvent| {
        let last = &mut last[event.shard.index()];
        *last += 1;
        *last == event.position
    };
    (!events.is_empty() && events.iter().all(follows)).then_some(events)
}

#[cfg(test)]
mod tests {
    use linkledger_core::{
        envelope::Metadata,
        id::{AccountId, EventId},
        shard::Shard,
    };
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    fn event(shard: u8, position: Position) -> RecordedEvent {
        RecordedEvent {
            shard: Shard::new(shard.into()).unwrap(),
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

    fn after(positions: &[Position]) -> Vec<ReadFrom> {
        let place = |(shard, after): (Shard, &Position)| ReadFrom {
            shard,
            after: *after,
        };
        Shard::all().zip(positions).map(place).collect()
    }

    fn taken(committed: &CommittedEvents, places: &[Position]) -> Option<Vec<(u8, Position)>> {
        let events = committed.take_after(&after(places))?;
        let place = |event: &RecordedEvent| {
            let shard = event.shard.index();
            (u8::try_from(shard).unwrap(), event.position)
        };
        Some(events.iter().map(place).collect())
    }

    proptest! {
        #[test]
        fn whatever_was_handed_over_nothing_is_left_out(
            commits in prop::collection::vec((0..3_u8, 1..8_i64), 0..12),
            places in prop::array::uniform3(0..8_i64),
        ) {
            let committed = CommittedEvents::default();
            for (shard, position) in &commits {
                committed.hand_over(vec![event(*shard, *position)]);
            }
            if let Some(taken) = taken(&committed, &places) {
                prop_assert!(!taken.is_empty());
                for (shard, place) in (0..3).zip(places) {
                    let of_shard: Vec<_> = taken.iter().filter(|(of, _)| *of == shard).collect();
                    for (expected, (_, position)) in (place + 1..).zip(of_shard) {
                        prop_assert_eq!(*position, expected);
                    }
                }
            }
            prop_assert_eq!(taken_again(&committed), None);
        }
    }

    fn taken_again(committed: &CommittedEvents) -> Option<Vec<(u8, Position)>> {
        taken(committed, &[0, 0, 0])
    }

    #[test]
    fn commits_of_two_writers_are_put_in_order() {
        let committed = CommittedEvents::default();
        committed.hand_over(vec![event(1, 8), event(1, 9)]);
        committed.hand_over(vec![event(0, 4), event(1, 7)]);
        let expected = vec![(0, 4), (1, 7), (1, 8), (1, 9)];
        assert_eq!(taken(&committed, &[3, 6]), Some(expected));
    }

    #[test]
    fn more_events_than_fit_are_left_to_the_log() {
        let committed = CommittedEvents::default();
        let most = i64::try_from(EVENTS_MAX).unwrap();
        committed.hand_over((1..=most).map(|position| event(0, position)).collect());
        committed.hand_over(vec![event(0, most + 1)]);
        assert_eq!(taken(&committed, &[0]), None);
    }
}
