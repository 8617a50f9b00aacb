//! The only callers of the system's clock and random generator.

use std::{
    mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rand::Rng as _;
use time::OffsetDateTime;
use uuid::Uuid;

/// Smallest step back of the wall clock that is reported.
const SET_BACK_MIN: Duration = Duration::from_secs(1);

/// A source of time. A parameter, so that tests can stop or advance the clock.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time in UTC, truncated to the millisecond, the precision of ids, events
    /// and answers.
    fn now(&self) -> OffsetDateTime;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
    fn now(&self) -> OffsetDateTime {
        to_millisecond(OffsetDateTime::from(SystemTime::now()))
    }
}

/// Truncates an instant to the millisecond.
pub fn to_millisecond(instant: OffsetDateTime) -> OffsetDateTime {
    instant
        .replace_millisecond(instant.millisecond())
        .expect("a millisecond of an instant")
}

/// Returns a new `UUIDv7` whose first 48 bits are the milliseconds of `now` (RFC 9562, 5.7).
pub fn new_uuid(now: OffsetDateTime) -> Uuid {
    let milliseconds = now.unix_timestamp_nanos() / 1_000_000;
    let milliseconds = u64::try_from(milliseconds).expect("the clock is after 1970");
    uuid::Builder::from_unix_timestamp_millis(milliseconds, &random_bytes()).into_uuid()
}

/// Returns bytes of a cryptographically secure generator.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that draws randomness"
)]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

/// Returns `length` characters, each drawn evenly from `alphabet` (at most 256 characters, all
/// ASCII).
pub fn random_text<const N: usize>(alphabet: &[u8; N], length: usize) -> String {
    // Bytes at or above the largest multiple of the alphabet's size would favour the alphabet's
    // start.
    let bound = 256 - 256 % N;
    let mut text = Vec::with_capacity(length);
    while text.len() < length {
        let drawn = random_bytes::<32>();
        let fair = drawn
            .iter()
            .map(|byte| usize::from(*byte))
            .filter(|byte| *byte < bound);
        text.extend(fair.take(length - text.len()).map(|b| alphabet[b % N]));
    }
    String::from_utf8(text).expect("the alphabet is ASCII")
}

/// Watch of a wall clock. A step back that takes less time than lies between two calls is not noticed.
///
/// librdkafka waits by the wall clock: a client that waited for a broker while the clock was ahead sleeps, once
/// the clock is set back, until the clock shows the earlier time again. Such a client must be replaced.
pub struct SetBackWatch {
    clock: Arc<dyn Clock>,
    last_time: OffsetDateTime,
}

impl SetBackWatch {
    /// Starts a watch.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let last_time = clock.now();
        Self { clock, last_time }
    }

    /// Returns the reason to replace a client, if the clock was set back by at least a second since the last call.
    pub fn set_back(&mut self) -> Option<String> {
        let before = mem::replace(&mut self.last_time, self.clock.now());
        let by = Duration::try_from(before - self.last_time).unwrap_or(Duration::ZERO);
        (by >= SET_BACK_MIN).then(|| {
            format!(
                "the clock of this machine was set back by {} s, and a Kafka client may wait as long: \
                 replacing the client",
                by.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use time::macros::datetime;

    use super::*;

    #[test]
    fn an_id_carries_the_milliseconds_of_its_instant() {
        let now = datetime!(2026-11-20 09:51:00.123 UTC);
        let uuid = new_uuid(now);
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.as_u128() >> 80, 1_795_168_260_123);
        assert_ne!(uuid, new_uuid(now));
    }

    #[test]
    fn random_text_uses_exactly_the_alphabet() {
        let text = random_text(b"abc", 1_000);
        assert_eq!(text.len(), 1_000);
        for character in ['a', 'b', 'c'] {
            let count = text.chars().filter(|c| *c == character).count();
            assert!((200..500).contains(&count), "{character}: {count}");
        }
    }

    struct SetClock(Mutex<OffsetDateTime>);

    impl Clock for SetClock {
        fn now(&self) -> OffsetDateTime {
            *self.0.lock().unwrap()
        }
    }

    #[test]
    fn step_back_of_a_second_is_reported_once() {
        let clock = Arc::new(SetClock(Mutex::new(OffsetDateTime::UNIX_EPOCH)));
        let mut watch = SetBackWatch::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let mut after = |seconds: f64| {
            *clock.0.lock().unwrap() += time::Duration::seconds_f64(seconds);
            watch.set_back()
        };
        assert_eq!(after(0.0), None);
        assert_eq!(after(3_600.0), None);
        let reason = after(-3_600.0).unwrap();
        assert!(reason.contains("was set back by 3600 s"), "{reason}");
        assert_eq!(after(0.0), None);
        assert_eq!(after(-0.9), None);
    }
}
