//! Closes Kafka clients within a bounded time.

use std::{
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// Longest wait for the threads of a client.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// Drops a Kafka client, and waits until its threads have ended, but not longer than 2 s: then the threads
/// end later by themselves. Blocks the calling thread.
///
/// librdkafka waits by the wall clock. When the clock is set back, an idle thread of a client sleeps until
/// the clock shows the earlier time again, and the drop of the client waits for this thread.
pub fn close(client: impl Send + 'static) {
    close_within(CLOSE_TIME_MAX, client);
}

fn close_within(time_max: Duration, client: impl Send + 'static) {
    let (until_closed, closed) = channel::<()>();
    let closing = thread::Builder::new().name("kafka close".to_owned());
    let spawned = closing.spawn(move || {
        drop(client);
        drop(until_closed);
    });
    // Without a thread, the closure with the client is dropped at once.
    if spawned.is_ok() && closed.recv_timeout(time_max) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!(
            "a Kafka client does not close, and is left behind; its threads wait if the wall clock was set back"
        );
    }
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
        close_within(Duration::from_millis(10), Client { may_end, ended });
        assert!(end.try_recv().is_err());
        allow.send(()).unwrap();
        end.recv().unwrap();
    }

    #[test]
    fn close_waits_for_the_end() {
        let (allow, may_end) = channel();
        let (ended, end) = channel();
        allow.send(()).unwrap();
        close_within(Duration::from_mins(1), Client { may_end, ended });
        end.try_recv().unwrap();
    }
}
