//! How far a connection is, and until when it must go on. Pure: the time comes in.

use std::time::Duration;

use tokio::time::Instant;

use super::ConnectionLimits;

/// How long input is still taken after the end of our side, in seconds: closing on unread input
/// would take the answer from a client that is still sending.
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);

/// What a connection is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first byte of a request.
    Idle,
    /// The rest of the request's head.
    Head,
    /// The rest of the request's body.
    Body,
    /// The service's answer: handlers bound themselves.
    Answer,
    /// The client's end, after ours.
    End,
}

/// The progress of one connection.
#[derive(Debug)]
pub(super) struct Progress {
    limits: ConnectionLimits,
    phase: Phase,
    /// Of the phase; none while the service is at work.
    deadline: Option<Instant>,
    /// For the client to take a byte of what is written.
    write_deadline: Option<Instant>,
    /// Whether the client may be sending what nobody reads.
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

    /// When the connection is to be closed unless it has gone on by then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match (self.deadline, self.write_deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Whether input is left behind by an answer that did not wait for it.
    pub(super) fn has_unread(&self) -> bool {
        self.has_unread
    }

    /// Bytes have come from the client.
    pub(super) fn received(&mut self, now: impl FnOnce() -> Instant) {
        if self.phase == Phase::Idle {
            self.phase = Phase::Head;
            self.deadline = Some(now() + self.limits.head_time_max);
            self.has_unread = true;
        }
    }

    /// A head is complete.
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

    /// A body is complete.
    pub(super) fn body_is_read(&mut self) {
        self.has_unread = false;
        self.body_is_left();
    }

    /// Nobody waits for the rest of a body.
    pub(super) fn body_is_left(&mut self) {
        if self.phase == Phase::Body {
            self.phase = Phase::Answer;
            self.deadline = None;
        }
    }

    /// An answer is complete but for what the socket has not taken yet.
    pub(super) fn answered(&mut self, now: Instant) {
        self.phase = Phase::Idle;
        self.deadline = Some(now + self.limits.idle_time_max);
    }

    /// The client takes no more bytes just now.
    pub(super) fn write_is_blocked(&mut self, now: impl FnOnce() -> Instant) {
        if self.write_deadline.is_none() {
            self.write_deadline = Some(now() + self.limits.write_time_max);
        }
    }

    /// The client has taken bytes.
    pub(super) fn written(&mut self) {
        self.write_deadline = None;
    }

    /// We have ended our side.
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

    /// A connection and a clock that is moved by hand: seconds since the connection began.
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
    fn a_head_has_its_time_from_its_first_byte() {
        let mut timeline = Timeline::new();
        assert_eq!(timeline.closes_at(), Some(75));
        let (first, later) = (timeline.at(70), timeline.at(79));
        timeline.progress.received(|| first);
        assert_eq!(timeline.closes_at(), Some(80));
        timeline.progress.received(|| later);
        assert_eq!(timeline.closes_at(), Some(80), "bytes buy no time");
    }

    #[test]
    fn a_body_has_its_time_from_the_end_of_the_head() {
        let mut timeline = Timeline::new();
        let (first, head) = (timeline.at(1), timeline.at(5));
        timeline.progress.received(|| first);
        timeline.progress.head_is_read(true, || head);
        timeline.progress.received(|| head);
        assert_eq!(timeline.closes_at(), Some(20));
        timeline.progress.body_is_read();
        assert_eq!(timeline.closes_at(), None, "the service is at work");
        let answered = timeline.at(25);
        timeline.progress.answered(answered);
        assert_eq!(timeline.closes_at(), Some(100));
    }

    #[test]
    fn a_client_that_takes_nothing_is_given_up() {
        let mut timeline = Timeline::new();
        let (head, blocked, later) = (timeline.at(1), timeline.at(2), timeline.at(30));
        timeline.progress.head_is_read(false, || head);
        timeline.progress.write_is_blocked(|| blocked);
        timeline.progress.write_is_blocked(|| later);
        assert_eq!(timeline.closes_at(), Some(32));
        timeline.progress.answered(later);
        assert_eq!(timeline.closes_at(), Some(32), "it is not out yet");
        timeline.progress.written();
        assert_eq!(timeline.closes_at(), Some(105));
    }

    #[test]
    fn what_an_early_answer_leaves_unread_is_known() {
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
