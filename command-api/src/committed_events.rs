//! Committed events on their way from the writers to the relay of the same process.
//!
//! A shortcut, which may drop events at any time: what it lacks, the relay reads from the log.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use linkledger_core::{envelope::RecordedEvent, shard::Position};
use linkledger_event_store::log::{PerShard, ReadFrom};
use tokio::sync::Notify;

/// Most waiting events: a few full commit groups. A relay that is further behind reads the log.
const EVENTS_MAX: usize = 2_000;
/// Most bytes of their payloads.
const BYTES_MAX: usize = 4 << 20;
/// Age at which waiting events are dropped: the log may have been restored since they were committed.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Events that writers have committed and the relay has not taken.
#[derive(Default)]
pub struct CommittedEvents {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    events: Vec<RecordedEvent>,
    bytes: usize,
    /// Instant of the oldest events; none if there are no events.
    since: Option<Instant>,
}

impl CommittedEvents {
    /// Adds the events of a commit that began at `since` or later, and wakes the relay.
    pub fn add(&self, events: Vec<RecordedEvent>, since: Instant) {
        if events.is_empty() {
            return;
        }
        let bytes: usize = events.iter().map(|event| event.payload.len()).sum();
        let mut waiting = self.waiting();
        let is_full =
            waiting.events.len() + events.len() > EVENTS_MAX || waiting.bytes + bytes > BYTES_MAX;
        let dropped = if is_full || waiting.is_stale() {
            mem::take(&mut *waiting)
        } else {
            Waiting::default()
        };
        waiting.since = Some(waiting.since.map_or(since, |oldest| oldest.min(since)));
        waiting.bytes += bytes;
        waiting.events.extend(events);
        drop(waiting);
        drop(dropped);
        self.added.notify_one();
    }

    /// Takes the waiting events, and returns those after the given places, by shard and position. Returns `None` if
    /// there are none, if one is missing before another, or if a shard has no place.
    pub fn take_after(&self, places: &[ReadFrom]) -> Option<Vec<RecordedEvent>> {
        let waiting = mem::take(&mut *self.waiting());
        if waiting.is_stale() {
            return None;
        }
        next_in_line(waiting.events, places)
    }

    /// Waits for the next commit.
    pub async fn next_commit(&self) {
        self.added.notified().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while holding the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_stale(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= AGE_MAX)
    }
}

/// Returns the events after the places, by shard and position; `None` if there are none, or if one is missing before
/// another. They come in the order of the commits' answers: of two writers, the one that committed later may come first.
fn next_in_line(mut events: Vec<RecordedEvent>, places: &[ReadFrom]) -> Option<Vec<RecordedEvent>> {
    let mut last = PerShard::<Option<Position>>::default();
    for place in places {
        last[place.shard.index()] = Some(place.after);
    }
    let is_new =
        |event: &RecordedEvent| last[event.shard.index()].is_none_or(|it| it < event.position);
    events.retain(is_new);
    events.sort_unstable_by_key(|event| (event.shard, event.position));
    let follows = |event: &RecordedEvent| {
        let last = &mut last[event.shard.index()];
        *last = last.map(|position| position + 1);
        *last == Some(event.position)
    };
    (!events.is_empty() && events.iter().all(follows)).then_some(events)
}

#[cfg(test)]
mod tests;
