//! Named places at which a test makes the process die as by `kill -9`.
//!
//! The variable `LINKLEDGER_FAIL_AT=relay.sent:17` kills it when it is at `relay.sent` for the
//! 17th time. In builds without the feature `fail-points`, which are all but those of tests, a
//! fail point is nothing.

/// The process is at the place of that name.
#[cfg(not(feature = "fail-points"))]
#[inline]
pub fn reached(_name: &str) {}

/// The process is at the place of that name.
#[cfg(feature = "fail-points")]
pub fn reached(name: &str) {
    use nix::sys::signal::{Signal, raise};

    if armed::FAIL_AT.as_ref().is_some_and(|it| it.is_due(name)) {
        raise(Signal::SIGKILL).expect("a process may kill itself");
    }
}

#[cfg(feature = "fail-points")]
mod armed {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    };

    pub(super) static FAIL_AT: LazyLock<Option<FailAt>> = LazyLock::new(|| {
        let setting = std::env::var("LINKLEDGER_FAIL_AT").ok()?;
        Some(FailAt::parse(&setting).expect("LINKLEDGER_FAIL_AT is NAME:TIMES"))
    });

    pub(super) struct FailAt {
        name: String,
        times_left: AtomicU32,
    }

    impl FailAt {
        pub(super) fn parse(setting: &str) -> Option<Self> {
            let (name, times) = setting.split_once(':')?;
            Some(Self {
                name: name.to_owned(),
                times_left: AtomicU32::new(times.parse().ok()?),
            })
        }

        pub(super) fn is_due(&self, name: &str) -> bool {
            name == self.name && self.times_left.fetch_sub(1, Ordering::Relaxed) == 1
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn it_is_due_the_nth_time_at_its_own_name() {
            let fail_at = FailAt::parse("relay.sent:2").unwrap();
            let due = ["relay.sent", "relay.read", "relay.sent", "relay.sent"];
            assert_eq!(
                due.map(|name| fail_at.is_due(name)),
                [false, false, true, false]
            );
            assert!(FailAt::parse("relay.sent").is_none());
            assert!(FailAt::parse("relay.sent:often").is_none());
        }
    }
}
