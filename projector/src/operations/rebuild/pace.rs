//! Rate limit of a rebuild: the services must stay fast meanwhile.

use std::{
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use crate::pipeline::followers::CYCLE_EVENTS_MAX;

/// Transactions per second if the rate is limited: many short ones.
const CHUNKS_PER_SECOND: u32 = 20;
/// Least number of events of a transaction.
const CHUNK_EVENTS_MIN: u32 = 100;

/// Rate limiter, shared by all tasks that read.
#[derive(Debug)]
pub struct RebuildPace {
    /// Events per second; `None` for no limit.
    max_rate: Option<NonZeroU32>,
    /// Earliest time at which the next chunk may be read.
    next_at: Mutex<Instant>,
}

impl RebuildPace {
    /// Returns a limiter of `max_rate` events per second; `None` for no limit.
    pub fn new(max_rate: Option<NonZeroU32>) -> Self {
        Self {
            max_rate,
            next_at: Mutex::new(Instant::now()),
        }
    }

    /// Returns the number of events of a chunk.
    pub fn chunk_events(&self) -> i64 {
        let most = u32::try_from(CYCLE_EVENTS_MAX).expect("some thousands");
        let chunk = self.max_rate.map_or(most, |rate| {
            (rate.get() / CHUNKS_PER_SECOND).clamp(CHUNK_EVENTS_MIN, most)
        });
        chunk.into()
    }

    /// Waits until the events may be read.
    pub async fn take(&self, events: u64) {
        let Some(rate) = self.max_rate else {
            return;
        };
        sleep_until(self.reserve(events, rate, Instant::now())).await;
    }

    /// Reserves that many events, and returns the time at which they may be read.
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
    fn concurrent_readers_share_the_rate_limit() {
        let rate = NonZeroU32::new(1_000).unwrap();
        let pace = RebuildPace::new(Some(rate));
        let now = Instant::now() + Duration::from_mins(1);
        let waits = |now| [100, 200, 100].map(|events| pace.reserve(events, rate, now) - now);
        let waits_ms = |now| waits(now).map(|wait| wait.as_millis());
        assert_eq!(waits_ms(now), [0, 100, 300]);
        assert_eq!(waits_ms(now + Duration::from_mins(1)), [0, 100, 300]);
    }

    #[test]
    fn low_rate_makes_short_chunks() {
        let chunk = |rate| RebuildPace::new(NonZeroU32::new(rate)).chunk_events();
        let chunks = [chunk(0), chunk(10), chunk(10_000), chunk(1_000_000)];
        assert_eq!(chunks, [4_000, 100, 500, 4_000]);
    }
}
