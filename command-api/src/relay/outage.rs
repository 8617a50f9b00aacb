//! Log lines about an outage of the broker or the database: one at the start, one now and then, one
//! when the relay publishes again, and one when no event waits any more. A reason that becomes known
//! only during the outage is logged as well.
//!
//! A broker that comes and goes does not flood the log: there are a few lines in each
//! [`LOG_INTERVAL`].

use std::time::{Duration, Instant};

use linkledger_service::metrics::RELAY_STALLED_SECONDS;
use metrics::gauge;

use super::backlog::Backlog;

/// Interval between two log lines about the same outage.
pub(super) const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Outage of the relay, and the lines that were logged.
#[derive(Debug, Default)]
pub(super) struct Outage {
    state: OutageState,
    logged_at: Option<Instant>,
    /// Reason of the last line at the interval; none after another reason was logged.
    logged_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum OutageState {
    #[default]
    Publishing,
    Stalled {
        since: Instant,
        is_logged: bool,
    },
    /// The relay publishes the events that have waited.
    Draining {
        since: Instant,
        is_logged: bool,
        events: usize,
    },
}

/// Line for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Stalled(Duration),
    PublishesAgain(Duration),
    CaughtUp(usize, Duration),
}

impl Outage {
    /// Records that nothing was published since `begun`, for that `reason`.
    pub(super) fn stalled(&mut self, begun: Instant, backlog: Backlog, reason: &str) {
        let now = Instant::now();
        let line = self.advance_stalled(begun, now, reason);
        if let OutageState::Stalled { since, .. } = self.state {
            gauge!(RELAY_STALLED_SECONDS).set(now - since);
        }
        log(line, backlog, reason);
    }

    /// Records that `events` were published; 0 means that no event waits.
    pub(super) fn published(&mut self, backlog: Backlog, events: usize) {
        if self.state == OutageState::Publishing {
            return;
        }
        let now = Instant::now();
        gauge!(RELAY_STALLED_SECONDS).set(0.0);
        log(self.advance_to_draining(now), backlog, "");
        log(self.advance_draining(now, events), backlog, "");
    }

    fn advance_stalled(&mut self, begun: Instant, now: Instant, reason: &str) -> Option<Line> {
        let (since, was_logged) = match self.state {
            OutageState::Stalled { since, is_logged } => (since, is_logged),
            OutageState::Publishing | OutageState::Draining { .. } => (begun, false),
        };
        let is_time = self.logged_at.is_none_or(|at| now - at >= LOG_INTERVAL);
        let logged = self.logged_reason.as_deref().filter(|_| was_logged);
        let is_news = logged.is_some_and(|logged| !reason.contains(logged));
        let is_due = is_time || is_news;
        self.state = OutageState::Stalled {
            since,
            is_logged: was_logged || is_due,
        };
        if is_time {
            self.logged_at = Some(now);
            self.logged_reason = Some(reason.to_owned());
        } else if is_news {
            self.logged_reason = None;
        }
        is_due.then_some(Line::Stalled(now - since))
    }

    fn advance_to_draining(&mut self, now: Instant) -> Option<Line> {
        let OutageState::Stalled { since, is_logged } = self.state else {
            return None;
        };
        self.state = OutageState::Draining {
            since: now,
            is_logged,
            events: 0,
        };
        is_logged.then_some(Line::PublishesAgain(now - since))
    }

    fn advance_draining(&mut self, now: Instant, published: usize) -> Option<Line> {
        let OutageState::Draining {
            since,
            is_logged,
            events,
        } = &mut self.state
        else {
            return None;
        };
        if published > 0 {
            *events += published;
            return None;
        }
        let line = is_logged.then_some(Line::CaughtUp(*events, now - *since));
        self.state = OutageState::Publishing;
        line
    }
}

fn log(line: Option<Line>, backlog: Backlog, reason: &str) {
    let (lag, oldest_age) = (backlog.events, backlog.oldest_age);
    match line {
        Some(Line::Stalled(duration)) => tracing::warn!(
            error = reason,
            duration_ms = milliseconds(duration),
            lag,
            oldest_age_ms = milliseconds(oldest_age),
            "the relay is stalled; events wait in the log"
        ),
        Some(Line::PublishesAgain(duration)) => tracing::info!(
            duration_ms = milliseconds(duration),
            lag,
            oldest_age_ms = milliseconds(oldest_age),
            "the relay publishes again after an outage"
        ),
        Some(Line::CaughtUp(events, duration)) => tracing::info!(
            events,
            duration_ms = milliseconds(duration),
            "the relay has published all events that waited"
        ),
        None => {}
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn outage_logs_begin_intervals_and_end() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        assert_eq!(
            outage.advance_stalled(begun, begun + SECOND, "away"),
            Some(Line::Stalled(SECOND))
        );
        for second in 2..120 {
            let now = begun + SECOND * second;
            let expected = (second % 30 == 1).then_some(Line::Stalled(now - begun));
            assert_eq!(outage.advance_stalled(now, now, "away"), expected);
        }
        let back = begun + SECOND * 120;
        assert_eq!(
            outage.advance_to_draining(back),
            Some(Line::PublishesAgain(SECOND * 120))
        );
        for _ in 0..5 {
            assert_eq!(outage.advance_to_draining(back), None);
            assert_eq!(outage.advance_draining(back, 1_000), None);
        }
        assert_eq!(
            outage.advance_draining(back + SECOND, 0),
            Some(Line::CaughtUp(5_000, SECOND))
        );
        assert_eq!(outage.advance_draining(back + SECOND, 0), None);
        assert_eq!(outage.state, OutageState::Publishing);
    }

    #[test]
    fn changed_reason_is_logged_before_the_interval() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        let mut told = Vec::new();
        for second in 0..40 {
            let now = begun + SECOND * second;
            let reason = format!("{second} s: reason {}", second / 5);
            let reason = if second % 30 == 0 {
                "reason 0"
            } else {
                &reason
            };
            let line = outage.advance_stalled(begun, now, reason);
            told.extend(line.map(|_| second));
        }
        assert_eq!(told, [0, 5, 30, 31]);
    }

    #[test]
    fn flapping_broker_logs_few_lines() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        let mut lines = 0;
        for second in 0..60 {
            let now = begun + SECOND * second;
            lines += usize::from(outage.advance_stalled(now, now, "away").is_some());
            lines += usize::from(outage.advance_to_draining(now).is_some());
            lines += usize::from(outage.advance_draining(now, 1).is_some());
            lines += usize::from(outage.advance_draining(now, 0).is_some());
        }
        assert_eq!(lines, 6, "three of the first outage, three 30 s later");
    }

    #[test]
    fn second_outage_during_drain_is_reported() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        outage.advance_stalled(begun, begun, "away");
        outage.advance_to_draining(begun + SECOND);
        outage.advance_draining(begun + SECOND, 7);
        assert_eq!(
            outage.advance_stalled(begun + SECOND * 31, begun + SECOND * 31, "away"),
            Some(Line::Stalled(Duration::ZERO))
        );
        assert_eq!(
            outage.advance_to_draining(begun + SECOND * 40),
            Some(Line::PublishesAgain(SECOND * 9))
        );
        assert_eq!(
            outage.advance_draining(begun + SECOND * 40, 0),
            Some(Line::CaughtUp(0, Duration::ZERO))
        );
    }
}
