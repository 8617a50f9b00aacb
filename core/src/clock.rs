//! The only callers of the system's clock and random generator.

mod set_back;

use std::time::SystemTime;

use rand::Rng as _;
use time::OffsetDateTime;
use uuid::Uuid;

pub use self::set_back::SetBackWatch;

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

#[cfg(test)]
mod tests {
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
}
