//! Decides when a follower stops waiting for the topic and reads the log.
//!
//! The log is always ahead of the topic by the delay of the relay. The topic therefore has a moment to deliver what the
//! log has; once it was late, the log is read at once until the topic delivers again.

use std::time::Duration;

use linkledger_core::shard::Position;
use tokio::time::Instant;

/// Time for the topic to deliver an event of the log.
const DELAY_MAX: Duration = Duration::from_millis(300);

/// Wait of the followers of a shard for the topic.
#[derive(Debug, Default)]
pub(super) struct TopicDelay {
    /// Position of the log that a follower has not reached yet, and since when that is known.
    awaited: Option<(Position, Instant)>,
    /// True if the topic has not delivered an event in time, and none since.
    pub(super) is_late: bool,
}

impl TopicDelay {
    /// Returns true if a follower at `position` has to read the log up to its `head`.
    pub(super) fn is_over(&mut self, position: Position, head: Position, now: Instant) -> bool {
        let (awaited, since) = match self.awaited {
            Some((awaited, since)) if position < awaited => (awaited, since),
            _ => (head, now),
        };
        self.awaited = (position < head).then_some((awaited, since));
        let is_over = position < head && (self.is_late || now - since >= DELAY_MAX);
        self.is_late |= is_over;
        is_over
    }

    /// The topic delivers.
    pub(super) fn end(&mut self) {
        self.is_late = false;
    }

    /// No follower waits for the topic.
    pub(super) fn stop_waiting(&mut self) {
        self.awaited = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: u64, start: Instant) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn topic_has_a_moment_for_each_event() {
        let (mut delay, start) = (TopicDelay::default(), Instant::now());
        assert!(!delay.is_over(4, 5, start));
        assert!(!delay.is_over(4, 9, after(200, start)));
        // Event 5 has come, and event 9 is awaited from now on.
        assert!(!delay.is_over(5, 9, after(400, start)));
        assert!(!delay.is_over(5, 9, after(699, start)));
        assert!(delay.is_over(5, 9, after(700, start)));
    }

    #[test]
    fn log_is_read_at_once_until_topic_delivers() {
        let (mut delay, start) = (TopicDelay::default(), Instant::now());
        assert!(!delay.is_over(4, 5, start));
        assert!(delay.is_over(4, 5, after(300, start)));
        assert!(!delay.is_over(5, 5, after(400, start)));
        assert!(delay.is_over(5, 6, after(500, start)));
        delay.end();
        assert!(!delay.is_over(6, 7, after(600, start)));
    }

    #[test]
    fn follower_at_the_head_waits_for_nothing() {
        let (mut delay, start) = (TopicDelay::default(), Instant::now());
        assert!(!delay.is_over(5, 5, start));
        assert!(!delay.is_over(5, 5, after(9_000, start)));
        assert!(!delay.is_over(5, 6, after(9_001, start)));
    }
}
