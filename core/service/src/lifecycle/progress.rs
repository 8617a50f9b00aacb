//! State and deadlines of a connection. Pure: the time is a parameter.

use std::time::Duration;

use tokio::time::Instant;

use super::ConnectionLimits;

/// Longest time for which input is discarded after the last answer, in seconds. Closing a socket
/// with unread input could destroy the answer before the client reads it.
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);

/// State of a connection: the awaited input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first byte of a request.
    Idle,
    /// The rest of the request's head.
    Head,
    /// The rest of the request's body.
    Body,
    /// The service's answer; handlers have their own timeouts.
    Answer,
    /// The end of the client's side, after the server's.
    End,
}

/// The progress of one connection.
#[derive(Debug)]
pub(super) struct Progress {
    limits: ConnectionLimits,
    phase: Phase,
    /// Deadline of the phase; none while the service works.
    deadline: Option<Instant>,
    /// Deadline for the client to accept a byte of the answer.
    write_deadline: Option<Instant>,
    /// True if the client may be sending input that will not be read.
    has_unread: bool,
}

impl Progress {
    pub(super) fn new(limits: ConnectionLimits, now: Instant) -> Self {
        Self {
            limits,
            phase: Phase::Idle,
            deadline: Some(now + limits.idle_time_max),
            write_deadline: None,
            has_unread: false,
        }
    }

    /// Returns the time at which the connection is closed unless it makes progress.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match (self.deadline, self.write_deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Returns true if the client may be sending input that will not be read, and that must be discarded before
    /// the connection is closed.
    pub(super) fn has_unread(&self) -> bool {
        self.has_unread
    }

    /// Records input from the client.
    pub(super) fn received(&mut self, now: impl FnOnce() -> Instant) {
        if self.phase == Phase::Idle {
            self.phase = Phase::Head;
            self.deadline = Some(now() + self.limits.head_time_max);
            self.has_unread = true;
        }
    }

    /// Records that a head is complete.
    pub(super) fn head_is_read(&mut self, has_body: bool, now: impl FnOnce() -> Instant) {
        self.has_unread = has_body;
        if has_body {
            self.phase = Phase::Body;
            self.deadline = Some(now() + self.limits.body_time_max);
        } else {
            self.phase = Phase::Answer;
            self.deadline = None;
        }
    }

    /// Records that a body is complete.
    pub(super) fn body_is_read(&mut self) {
        self.has_unread = false;
        self.body_is_left();
    }

    /// Records that the rest of a body will not be read.
    pub(super) fn body_is_left(&mut self) {
        if self.phase == Phase::Body {
            self.phase = Phase::Answer;
            self.deadline = None;
        }
    }

    /// Records that an answer is complete, except for bytes that the socket has not accepted.
    pub(super) fn answered(&mut self, now: Instant) {
        self.phase = Phase::Idle;
        self.deadline = Some(now + self.limits.idle_time_max);
    }

    /// Records that the client accepts no more bytes.
    pub(super) fn write_is_blocked(&mut self, now: impl FnOnce() -> Instant) {
        if self.write_deadline.is_none() {
            self.write_deadline = Some(now() + self.limits.write_time_max);
        }
    }

    /// Records that the client accepted bytes.
    pub(super) fn written(&mut self) {
        self.write_deadline = None;
    }

    /// Records that the server has closed its side.
    pub(super) fn ended(&mut self, now: impl FnOnce() -> Instant) {
        if self.phase != Phase::End {
            self.phase = Phase::End;
            self.deadline = Some(now() + LINGER_TIME_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection with a manual clock, in seconds since the connection began.
    struct Timeline {
        progress: Progress,
        begin: Instant,
    }

    impl Timeline {
        fn new() -> Self {
            let limits = ConnectionLimits {
                head_time_max: Duration::from_secs(10),
                body_time_max: Duration::from_secs(15),
                idle_time_max: Duration::from_secs(75),
                write_time_max: Duration::from_secs(30),
                ..ConnectionLimits::default()
            };
            let begin = Instant::now();
            Self {
                progress: Progress::new(limits, begin),
                begin,
            }
        }

        fn at(&self, second: u64) -> Instant {
            self.begin + Duration::from_secs(second)
        }

        fn closes_at(&self) -> Option<u64> {
            let deadline = self.progress.deadline()?;
            Some((deadline - self.begin).as_secs())
        }
    }

    #[test]
    fn head_deadline_starts_at_first_byte() {
        let mut timeline = Timeline::new();
        assert_eq!(timeline.closes_at(), Some(75));
        let (first, later) = (timeline.at(70), timeline.at(79));
        timeline.progress.received(|| first);
        assert_eq!(timeline.closes_at(), Some(80));
        timeline.progress.received(|| later);
        assert_eq!(
            timeline.closes_at(),
            Some(80),
            "more bytes do not extend the deadline"
        );
    }

    #[test]
    fn body_deadline_starts_after_the_head() {
        let mut timeline = Timeline::new();
        let (first, head) = (timeline.at(1), timeline.at(5));
        timeline.progress.received(|| first);
        timeline.progress.head_is_read(true, || head);
        timeline.progress.received(|| head);
        assert_eq!(timeline.closes_at(), Some(20));
        timeline.progress.body_is_read();
        assert_eq!(timeline.closes_at(), None, "the service works");
        let answered = timeline.at(25);
        timeline.progress.answered(answered);
        assert_eq!(timeline.closes_at(), Some(100));
    }

    #[test]
    fn blocked_write_has_a_deadline() {
        let mut timeline = Timeline::new();
        let (head, blocked, later) = (timeline.at(1), timeline.at(2), timeline.at(30));
        timeline.progress.head_is_read(false, || head);
        timeline.progress.write_is_blocked(|| blocked);
        timeline.progress.write_is_blocked(|| later);
        assert_eq!(timeline.closes_at(), Some(32));
        timeline.progress.answered(later);
        assert_eq!(timeline.closes_at(), Some(32), "the answer is not sent yet");
        timeline.progress.written();
        assert_eq!(timeline.closes_at(), Some(105));
    }

    #[test]
    fn early_answer_leaves_unread_input() {
        let mut timeline = Timeline::new();
        let now = timeline.at(1);
        timeline.progress.head_is_read(true, || now);
        timeline.progress.body_is_left();
        timeline.progress.answered(now);
        assert!(timeline.progress.has_unread());
        timeline.progress.head_is_read(true, || now);
        timeline.progress.body_is_read();
        assert!(!timeline.progress.has_unread());
    }
}
