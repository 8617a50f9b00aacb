//! How long the relay collects before it publishes again (ADR 2).

use std::time::Duration;

/// No interval is shorter, unless less is set.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
/// At so many events per second the interval is as long as is set.
const RATE_MAX_PER_S: f64 = 20_000.0;

/// The shortest time between the starts of two batches. Under load a batch then has what several
/// commits brought, which the broker and every consumer handle at a fraction of the cost of many
/// small ones; where little comes, that is not worth as long a wait.
#[derive(Debug, Clone, Copy, Default)]
pub struct BatchInterval {
    max: Duration,
}

impl BatchInterval {
    /// One that is at most that long.
    #[must_use]
    pub fn up_to(max: Duration) -> Self {
        Self { max }
    }

    /// The time from the start of a batch of so many events to the start of the next, when the
    /// batch before had begun `since` earlier. It follows the rate alone, and not how long the last
    /// interval was: otherwise short intervals would keep themselves short.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn after(self, events: usize, since: Duration) -> Duration {
        let rate_per_s = events as f64 / since.as_secs_f64().max(f64::MIN_POSITIVE);
        let grown = self.max.mul_f64((rate_per_s / RATE_MAX_PER_S).min(1.0));
        grown.max(INTERVAL_MIN).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_interval_grows_with_the_rate_up_to_the_longest() {
        let interval = BatchInterval::up_to(ms(20));
        for (events, since, expected) in [
            (1, 1_000, 5),
            (25, 5, 5),
            (100, 10, 10),
            (200, 20, 10),
            (400, 20, 20),
            (16_000, 20, 20),
            (1, 0, 20),
        ] {
            let found = interval.after(events, ms(since));
            assert_eq!(found, ms(expected), "{events} in {since} ms");
        }
    }

    #[test]
    fn the_interval_is_never_longer_than_asked_for() {
        for max in [0, 2] {
            let interval = BatchInterval::up_to(ms(max));
            assert_eq!(interval.after(1_000, ms(10)), ms(max));
            assert_eq!(interval.after(0, ms(10)), ms(max));
        }
    }
}
