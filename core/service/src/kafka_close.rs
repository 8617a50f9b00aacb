//! Closes Kafka clients within a bounded time.

use std::{
    ops::Deref,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// Longest wait for the threads of a client.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// A Kafka client that is closed within 2 s when it is dropped, wherever that is: a task that is cancelled, an error, or
/// a thread whose request has outlived all others. A consumer that can join a group closes itself in its drop, without a
/// limit of time.
#[derive(Debug)]
pub struct ClosedInTime<T: Send + 'static>(Option<T>);

impl<T: Send> ClosedInTime<T> {
    /// Returns the client with a bounded drop.
    pub fn new(client: T) -> Self {
        Self(Some(client))
    }
}

impl<T: Send> Deref for ClosedInTime<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only the drop takes the client")
    }
}

impl<T: Send + 'static> Drop for ClosedInTime<T> {
    fn drop(&mut self) {
        let client = self.0.take();
        close_in_time(move || drop(client));
    }
}

/// Closes a Kafka client by `close`, which drops the client, and waits for the end, but not longer than 2 s.
/// Returns false if the client is not closed by then: its threads end later by themselves. Blocks the
/// calling thread.
///
/// librdkafka waits by the wall clock. When the clock is set back, an idle thread of a client sleeps until
/// the clock shows the earlier time again, and the drop of the client waits for this thread.
pub fn close_in_time(close: impl FnOnce() + Send + 'static) -> bool {
    close_within(CLOSE_TIME_MAX, close)
}

/// Closes a Kafka client as [`close_in_time`], but waits up to `time_max`.
fn close_within(time_max: Duration, close: impl FnOnce() + Send + 'static) -> bool {
    let (until_closed, closed) = channel::<()>();
    let closing = thread::Builder::new().name("kafka close".to_owned());
    let spawned = closing.spawn(move || {
        close();
        drop(until_closed);
    });
    // If the system has no thread left, `close` was dropped with its client, without a limit of time.
    let is_closed =
        spawned.is_err() || closed.recv_timeout(time_max) != Err(RecvTimeoutError::Timeout);
    if !is_closed {
        tracing::warn!(
            "a Kafka client does not close, and is left behind; its threads wait if the wall clock was set back"
        );
    }
    is_closed
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender};

    use super::*;

    /// Client whose drop waits until the test allows the end.
    struct Client {
        may_end: Receiver<()>,
        ended: Sender<()>,
    }

    impl Drop for Client {
        fn drop(&mut self) {
            self.may_end.recv().ok();
            self.ended.send(()).ok();
        }
    }

    #[test]
    fn client_that_does_not_end_is_left_behind() {
        let (allow, may_end) = channel();
        let (ended, end) = channel();
        let client = Client { may_end, ended };
        assert!(!close_within(Duration::from_millis(10), || drop(client)));
        assert!(end.try_recv().is_err());
        allow.send(()).unwrap();
        end.recv().unwrap();
    }

    #[test]
    fn drop_leaves_behind_what_does_not_end() {
        let (allow, may_end) = channel();
        let (ended, end) = channel();
        drop(ClosedInTime::new(Client { may_end, ended }));
        assert!(end.try_recv().is_err());
        allow.send(()).unwrap();
        end.recv().unwrap();
    }

    #[test]
    fn close_waits_for_the_end() {
        let (allow, may_end) = channel();
        let (ended, end) = channel();
        allow.send(()).unwrap();
        let client = Client { may_end, ended };
        assert!(close_within(Duration::from_mins(1), || drop(client)));
        end.try_recv().unwrap();
    }
}
