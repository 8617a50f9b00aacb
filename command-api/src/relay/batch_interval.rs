//! Interval between two batches of the relay (ADR 2).

use std::time::Duration;

/// Shortest interval, unless a shorter one is configured.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
/// Rate of events per second at which the interval reaches the configured length.
const RATE_MAX_PER_S: f64 = 20_000.0;

/// Returns the time from the start of a batch of `events` to the start of the next batch, at most
/// `max`, if the batch before started `since` earlier.
///
/// Under load a batch then has the events of several commits, which cost broker and consumers a
/// fraction of many small batches. At a low rate the saving is not worth a long wait. The interval
/// depends on the rate alone, not on the last interval: otherwise short intervals would stay short
/// under load.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn interval_after(events: usize, since: Duration, max: Duration) -> Duration {
    let rate_per_s = events as f64 / since.as_secs_f64().max(f64::MIN_POSITIVE);
    let grown = max.mul_f64((rate_per_s / RATE_MAX_PER_S).min(1.0));
    grown.max(INTERVAL_MIN).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn interval_grows_with_rate_to_maximum() {
        for (events, since, expected) in [
            (1, 1_000, 5),
            (25, 5, 5),
            (100, 10, 10),
            (200, 20, 10),
            (400, 20, 20),
            (16_000, 20, 20),
            (1, 0, 20),
        ] {
            let found = interval_after(events, ms(since), ms(20));
            assert_eq!(found, ms(expected), "{events} in {since} ms");
        }
    }

    #[test]
    fn interval_is_never_longer_than_configured() {
        for max in [0, 2] {
            assert_eq!(interval_after(1_000, ms(10), ms(max)), ms(max));
            assert_eq!(interval_after(0, ms(10), ms(max)), ms(max));
        }
    }
}
