//! How fast events are taken from the log: a rebuild must leave the services what they need.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use crate::pipeline::engine::CYCLE_EVENTS_MAX;

/// Transactions in a second, if the rate is bounded: short ones, evenly spread.
const CHUNKS_PER_SECOND: u32 = 20;
/// Fewest events of a transaction.
const CHUNK_EVENTS_MIN: u32 = 100;

/// Shared by all who read.
#[derive(Debug)]
pub struct Pace {
    /// Events per second; `None` is as fast as it goes.
    max_rate: Option<NonZeroU32>,
    /// When the next chunk may be read.
    next_at: Mutex<Instant>,
}

impl Pace {
    /// At most so many events per second.
    pub fn new(max_rate: Option<NonZeroU32>) -> Self {
        Self {
            max_rate,
            next_at: Mutex::new(Instant::now()),
        }
    }

    /// How many events to take at once.
    pub fn chunk_events(&self) -> i64 {
        let most = u32::try_from(CYCLE_EVENTS_MAX).expect("some thousands");
        let chunk = self.max_rate.map_or(most, |rate| {
            (rate.get() / CHUNKS_PER_SECOND).clamp(CHUNK_EVENTS_MIN, most)
        });
        chunk.into()
    }

    /// Waits until that many events may be taken.
    pub async fn take(&self, events: u64) {
        let Some(rate) = self.max_rate else {
            return;
        };
        sleep_until(self.reserve(events, rate, Instant::now())).await;
    }

    /// When that many may be taken; whoever asks next comes after them.
    fn reserve(&self, events: u64, rate: NonZeroU32, now: Instant) -> Instant {
        let takes = Duration::from_secs(events) / rate.get();
        let mut next_at = self.next_at.lock().unwrap_or_else(PoisonError::into_inner);
        let begin_at = (*next_at).max(now);
        *next_at = begin_at + takes;
        begin_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_read_together_keep_to_the_rate_and_do_not_make_up_for_a_rest() {
        let rate = NonZeroU32::new(1_000).unwrap();
        let pace = Pace::new(Some(rate));
        let now = Instant::now() + Duration::from_mins(1);
        let waits = |now| [100, 200, 100].map(|events| pace.reserve(events, rate, now) - now);
        let waits_ms = |now| waits(now).map(|wait| wait.as_millis());
        assert_eq!(waits_ms(now), [0, 100, 300]);
        assert_eq!(waits_ms(now + Duration::from_mins(1)), [0, 100, 300]);
    }

    #[test]
    fn chunks_are_short_where_the_rate_is_low() {
        let chunk = |rate| Pace::new(NonZeroU32::new(rate)).chunk_events();
        let chunks = [chunk(0), chunk(10), chunk(10_000), chunk(1_000_000)];
        assert_eq!(chunks, [4_000, 100, 500, 4_000]);
    }
}
