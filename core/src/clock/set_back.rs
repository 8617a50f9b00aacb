//! Notices that the wall clock was set back.

use std::{mem, sync::Arc, time::Duration};

use time::OffsetDateTime;

use super::Clock;

/// Smallest step back that is reported.
const STEP_MIN: Duration = Duration::from_secs(1);

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
        (by >= STEP_MIN).then(|| {
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

    use super::*;

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
