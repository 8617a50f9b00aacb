//! What the log is told while the broker or the database holds the relay up: once that it is so,
//! now and then how it stands, once that it goes on, and once that nothing waits any more. The
//! reason may be known only after the beginning: then it is told too.
//!
//! A broker that comes and goes fills no log: of all these lines there are a few in
//! [`TELL_INTERVAL`].

use std::time::{Duration, Instant};

use linkledger_core::metrics::RELAY_HELD_UP_SECONDS;
use metrics::gauge;

use super::backlog::Backlog;

/// How often an outage is told of.
const TELL_INTERVAL: Duration = Duration::from_secs(30);

/// How the relay gets on.
#[derive(Debug, Default)]
pub(super) struct Outage {
    state: State,
    told_at: Option<Instant>,
    /// What was told then, until something else was.
    told_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Well,
    HeldUp {
        since: Instant,
        is_told: bool,
    },
    /// It goes on, with what has been waiting.
    Draining {
        since: Instant,
        is_told: bool,
        events: usize,
    },
}

/// A line for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    HeldUp(Duration),
    GoesOn(Duration),
    CaughtUp(usize, Duration),
}

impl Outage {
    /// Nothing has got on since `begun`, for that reason.
    pub(super) fn held_up(&mut self, begun: Instant, backlog: Backlog, reason: &str) {
        let now = Instant::now();
        let line = self.note_held_up(begun, now, reason);
        if let State::HeldUp { since, .. } = self.state {
            gauge!(RELAY_HELD_UP_SECONDS).set(now - since);
        }
        tell(line, backlog, reason);
    }

    /// So many events were published; none means that nothing waits.
    pub(super) fn published(&mut self, backlog: Backlog, events: usize) {
        if self.state == State::Well {
            return;
        }
        let now = Instant::now();
        gauge!(RELAY_HELD_UP_SECONDS).set(0.0);
        tell(self.note_going_on(now), backlog, "");
        tell(self.note_published(now, events), backlog, "");
    }

    fn note_held_up(&mut self, begun: Instant, now: Instant, reason: &str) -> Option<Line> {
        let (since, was_told) = match self.state {
            State::HeldUp { since, is_told } => (since, is_told),
            State::Well | State::Draining { .. } => (begun, false),
        };
        let is_time = self.told_at.is_none_or(|at| now - at >= TELL_INTERVAL);
        let told = self.told_reason.as_deref().filter(|_| was_told);
        let is_news = told.is_some_and(|told| !reason.contains(told));
        let is_due = is_time || is_news;
        self.state = State::HeldUp {
            since,
            is_told: was_told || is_due,
        };
        if is_time {
            self.told_at = Some(now);
            self.told_reason = Some(reason.to_owned());
        } else if is_news {
            self.told_reason = None;
        }
        is_due.then_some(Line::HeldUp(now - since))
    }

    fn note_going_on(&mut self, now: Instant) -> Option<Line> {
        let State::HeldUp { since, is_told } = self.state else {
            return None;
        };
        self.state = State::Draining {
            since: now,
            is_told,
            events: 0,
        };
        is_told.then_some(Line::GoesOn(now - since))
    }

    fn note_published(&mut self, now: Instant, published: usize) -> Option<Line> {
        let State::Draining {
            since,
            is_told,
            events,
        } = &mut self.state
        else {
            return None;
        };
        if published > 0 {
            *events += published;
            return None;
        }
        let line = is_told.then_some(Line::CaughtUp(*events, now - *since));
        self.state = State::Well;
        line
    }
}

fn tell(line: Option<Line>, backlog: Backlog, reason: &str) {
    let (lag, oldest_age) = (backlog.events, backlog.oldest_age);
    match line {
        Some(Line::HeldUp(duration)) => tracing::warn!(
            error = reason,
            duration_ms = milliseconds(duration),
            lag,
            oldest_age_ms = milliseconds(oldest_age),
            "the relay is held up; events wait in the log"
        ),
        Some(Line::GoesOn(duration)) => tracing::info!(
            duration_ms = milliseconds(duration),
            lag,
            oldest_age_ms = milliseconds(oldest_age),
            "the relay goes on after it was held up"
        ),
        Some(Line::CaughtUp(events, duration)) => tracing::info!(
            events,
            duration_ms = milliseconds(duration),
            "the relay has published all that waited"
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
    fn an_outage_is_told_of_at_its_beginning_now_and_then_and_at_its_end() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        assert_eq!(
            outage.note_held_up(begun, begun + SECOND, "away"),
            Some(Line::HeldUp(SECOND))
        );
        for second in 2..120 {
            let now = begun + SECOND * second;
            let expected = (second % 30 == 1).then_some(Line::HeldUp(now - begun));
            assert_eq!(outage.note_held_up(now, now, "away"), expected);
        }
        let back = begun + SECOND * 120;
        assert_eq!(outage.note_going_on(back), Some(Line::GoesOn(SECOND * 120)));
        for _ in 0..5 {
            assert_eq!(outage.note_going_on(back), None);
            assert_eq!(outage.note_published(back, 1_000), None);
        }
        assert_eq!(
            outage.note_published(back + SECOND, 0),
            Some(Line::CaughtUp(5_000, SECOND))
        );
        assert_eq!(outage.note_published(back + SECOND, 0), None);
        assert_eq!(outage.state, State::Well);
    }

    #[test]
    fn another_reason_is_told_once_before_it_is_time() {
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
            let line = outage.note_held_up(begun, now, reason);
            told.extend(line.map(|_| second));
        }
        assert_eq!(told, [0, 5, 30, 31]);
    }

    #[test]
    fn a_broker_that_comes_and_goes_fills_no_log() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        let mut lines = 0;
        for second in 0..60 {
            let now = begun + SECOND * second;
            lines += usize::from(outage.note_held_up(now, now, "away").is_some());
            lines += usize::from(outage.note_going_on(now).is_some());
            lines += usize::from(outage.note_published(now, 1).is_some());
            lines += usize::from(outage.note_published(now, 0).is_some());
        }
        assert_eq!(lines, 6, "three of the first outage, three 30 s later");
    }

    #[test]
    fn an_outage_while_the_last_one_drains_is_held_up_anew() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        outage.note_held_up(begun, begun, "away");
        outage.note_going_on(begun + SECOND);
        outage.note_published(begun + SECOND, 7);
        assert_eq!(
            outage.note_held_up(begun + SECOND * 31, begun + SECOND * 31, "away"),
            Some(Line::HeldUp(Duration::ZERO))
        );
        assert_eq!(
            outage.note_going_on(begun + SECOND * 40),
            Some(Line::GoesOn(SECOND * 9))
        );
        assert_eq!(
            outage.note_published(begun + SECOND * 40, 0),
            Some(Line::CaughtUp(0, Duration::ZERO))
        );
    }
}
