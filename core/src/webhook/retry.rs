//! When a message is sent again: pure decisions of the dispatcher.
//!
//! A receiver that is *ill* fails every message, so its messages wait in the log behind one probe. A receiver that
//! *refuses* one message takes the others, so that message alone has retries of its own.

use std::time::Duration;

use time::OffsetDateTime;

use crate::clock::to_millisecond;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Delays before the probes of a receiver that is ill, in seconds; the last one repeats.
const PROBE_DELAYS_S: [u64; 6] = [5, 30, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR];
/// Delays before the attempts after the first one of a refused message, in seconds.
const RETRY_DELAYS_S: [u64; 7] = [
    5,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    24 * HOUR,
];
/// Part of a delay by which it varies at most, so that many retries do not come at once.
const JITTER: f64 = 0.2;
/// Longest delay that a receiver can ask for by `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * HOUR);
/// Longest time without a success while messages wait: then the webhook is disabled.
const FAILURE_MAX: time::Duration = time::Duration::days(5);
/// Longest planned time between two attempts of messages that wait. In a longer one nobody watched the receiver.
const WATCHED_GAP_MAX: time::Duration = time::Duration::hours(25);

/// Outcome of an attempt to send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver accepted the message, by a status of 2xx.
    Accepted,
    /// The receiver refused this message; others may be accepted.
    Refused,
    /// The receiver wants no more messages: 410.
    Gone,
    /// The receiver cannot take messages now: there is no answer, or the status says so.
    Ill {
        /// Delay that the receiver asks for, of at most 24 hours.
        retry_after: Option<Duration>,
    },
}

impl AttemptOutcome {
    /// Returns the outcome of an attempt that was answered.
    pub fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        match status {
            200..=299 => Self::Accepted,
            410 => Self::Gone,
            408 | 425 | 429 | 500..=599 => Self::Ill {
                retry_after: retry_after.map(|delay| delay.min(RETRY_AFTER_MAX)),
            },
            _ => Self::Refused,
        }
    }
}

/// Health of a webhook whose receiver is ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Illness {
    /// Time of the first failure since the last success.
    pub since: OffsetDateTime,
    /// Number of failed probes.
    pub probes: u32,
    /// Time of the next probe.
    pub next_probe_at: OffsetDateTime,
}

impl Illness {
    /// Returns the illness that begins now. `jitter` is from 0 to 1; `retry_after` can only delay the probe.
    pub fn begin(now: OffsetDateTime, retry_after: Option<Duration>, jitter: f64) -> Self {
        Self {
            since: now,
            probes: 0,
            next_probe_at: next_probe_at(now, 0, retry_after, jitter),
        }
    }

    /// Returns the illness after a probe that failed now. A beginning in the future was read from a clock that was ahead.
    #[must_use]
    pub fn after_failed_probe(
        self,
        now: OffsetDateTime,
        retry_after: Option<Duration>,
        jitter: f64,
    ) -> Self {
        let probes = self.probes.saturating_add(1);
        Self {
            since: self.since.min(now),
            probes,
            next_probe_at: next_probe_at(now, probes, retry_after, jitter),
        }
    }
}

/// Returns the beginning of the time without a success after an attempt that failed now; `since` is what it was before.
///
/// Only time in which attempts were made counts: while the dispatcher is off, nobody knows whether messages would be
/// accepted. Nor does a clock count that was ahead.
pub fn failing_since(
    since: Option<OffsetDateTime>,
    last_attempt_at: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> OffsetDateTime {
    let gap = last_attempt_at.map_or(time::Duration::ZERO, |last| now - last);
    let unwatched = (gap - WATCHED_GAP_MAX).max(time::Duration::ZERO);
    since.map_or(now, |since| (since + unwatched).min(now))
}

/// Returns true if a receiver that has accepted nothing since then counts as unreachable.
pub fn is_unreachable(failing_since: OffsetDateTime, now: OffsetDateTime) -> bool {
    now - failing_since >= FAILURE_MAX
}

/// Returns the delay before the next attempt of a message that was refused for the n-th time, from 1; `None` after the
/// last attempt. `jitter` is from 0 to 1.
pub fn retry_delay(failed_attempts: u32, jitter: f64) -> Option<Duration> {
    let nth = usize::try_from(failed_attempts).ok()?.saturating_sub(1);
    let seconds = RETRY_DELAYS_S.get(nth)?;
    Some(varied(*seconds, jitter))
}

fn next_probe_at(
    now: OffsetDateTime,
    probes: u32,
    retry_after: Option<Duration>,
    jitter: f64,
) -> OffsetDateTime {
    let [.., last] = PROBE_DELAYS_S;
    let nth = usize::try_from(probes).unwrap_or(usize::MAX);
    let seconds = PROBE_DELAYS_S.get(nth).copied().unwrap_or(last);
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    to_millisecond(now + varied(seconds, jitter).max(asked))
}

fn varied(seconds: u64, jitter: f64) -> Duration {
    let factor = 1.0 - JITTER + 2.0 * JITTER * jitter.clamp(0.0, 1.0);
    Duration::from_secs(seconds).mul_f64(factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-20 09:51:00.123 UTC);
    /// Jitter that varies nothing.
    const MIDDLE: f64 = 0.5;

    #[test]
    fn outcome_follows_from_the_status() {
        let outcome = |status| AttemptOutcome::of_status(status, None);
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(outcome(status), AttemptOutcome::Accepted, "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            let ill = AttemptOutcome::Ill { retry_after: None };
            assert_eq!(outcome(status), ill, "{status}");
        }
        for status in [
            100, 199, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 413, 422, 499, 600,
        ] {
            assert_eq!(outcome(status), AttemptOutcome::Refused, "{status}");
        }
        assert_eq!(outcome(410), AttemptOutcome::Gone);
    }

    #[test]
    fn receiver_asks_for_a_day_at_most() {
        let week = Duration::from_secs(7 * 24 * HOUR);
        let day = Duration::from_secs(24 * HOUR);
        let outcome = AttemptOutcome::of_status(503, Some(week));
        let retry_after = Some(day);
        assert_eq!(outcome, AttemptOutcome::Ill { retry_after });
        let illness = Illness::begin(NOW, Some(week), MIDDLE);
        assert_eq!(illness.next_probe_at, NOW + day);
    }

    #[test]
    fn probes_become_rarer_up_to_one_an_hour() {
        let mut illness = Illness::begin(NOW, None, MIDDLE);
        let mut now = NOW;
        for (probes, delay) in [5, 30, 120, 600, 1_800, 3_600, 3_600, 3_600]
            .into_iter()
            .enumerate()
        {
            let expected = Illness {
                since: NOW,
                probes: u32::try_from(probes).unwrap(),
                next_probe_at: now + Duration::from_secs(delay),
            };
            assert_eq!(illness, expected);
            now = illness.next_probe_at;
            illness = illness.after_failed_probe(now, None, MIDDLE);
        }
    }

    #[test]
    fn wish_of_the_receiver_only_delays_a_probe() {
        for (asked, delay) in [(1, 5), (5, 5), (90, 90)] {
            let illness = Illness::begin(NOW, Some(Duration::from_secs(asked)), MIDDLE);
            assert_eq!(illness.next_probe_at, NOW + Duration::from_secs(delay));
        }
    }

    #[test]
    fn five_days_without_a_success_disable() {
        let end = NOW + time::Duration::days(5);
        assert!(!is_unreachable(NOW, end - time::Duration::milliseconds(1)));
        assert!(is_unreachable(NOW, end));
        // The first failure begins the time, and later ones leave the beginning as it is.
        assert_eq!(failing_since(None, None, NOW), NOW);
        let hour = time::Duration::hours(1);
        assert_eq!(failing_since(Some(NOW), Some(end - hour), end), NOW);
    }

    #[test]
    fn time_without_attempts_does_not_count() {
        let day = time::Duration::days(1);
        let moved = |gap: time::Duration| {
            let now = NOW + day + gap;
            failing_since(Some(NOW), Some(NOW + day), now) - NOW
        };
        let planned = time::Duration::hours(25);
        assert_eq!(moved(planned), time::Duration::ZERO);
        let week = time::Duration::days(7);
        assert_eq!(moved(week), week - planned);
    }

    #[test]
    fn clock_that_was_ahead_does_not_count() {
        let ahead = NOW + time::Duration::days(6);
        // The jump is a gap, and the way back begins anew.
        let after_jump = failing_since(Some(NOW), Some(NOW), ahead);
        assert!(!is_unreachable(after_jump, ahead));
        assert_eq!(failing_since(Some(after_jump), Some(ahead), NOW), NOW);
        let illness = Illness::begin(ahead, None, MIDDLE);
        assert_eq!(illness.after_failed_probe(NOW, None, MIDDLE).since, NOW);
    }

    #[test]
    fn refused_message_has_seven_retries() {
        let delays = (1..=8).map(|failed| retry_delay(failed, MIDDLE));
        let seconds = delays.map(|delay| delay.map(|delay| delay.as_secs()));
        assert_eq!(
            seconds.collect::<Vec<_>>(),
            [
                Some(5),
                Some(300),
                Some(1_800),
                Some(7_200),
                Some(18_000),
                Some(36_000),
                Some(86_400),
                None
            ]
        );
        assert_eq!(retry_delay(u32::MAX, MIDDLE), None);
    }

    proptest! {
        #[test]
        fn delays_vary_by_a_fifth(failed in 1_u32..=7, jitter in 0.0..=1.0) {
            let middle = retry_delay(failed, MIDDLE).unwrap().as_secs_f64();
            let delay = retry_delay(failed, jitter).unwrap().as_secs_f64();
            prop_assert!((middle * 0.799..=middle * 1.201).contains(&delay), "{delay}");
        }

        #[test]
        fn next_probe_is_later_than_now(probes: u32, asked: Option<u32>, jitter in 0.0..=1.0) {
            let asked = asked.map(|seconds| Duration::from_secs(seconds.into()));
            let illness = Illness { since: NOW, probes, next_probe_at: NOW };
            let next = illness.after_failed_probe(NOW, asked, jitter);
            let delay = next.next_probe_at - NOW;
            prop_assert!(delay >= time::Duration::seconds(4));
            prop_assert!(delay <= time::Duration::days(1));
        }
    }
}
