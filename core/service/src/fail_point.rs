//! Named places in the code at which a test kills or stops the process.
//!
//! `LINKLEDGER_FAIL_AT=relay.sent:17` kills the process, as by `kill -9`, when it reaches
//! `relay.sent` for the 17th time. `LINKLEDGER_STOP_AT` stops the process there until a SIGCONT.
//! Only builds for development (those with debug assertions) have fail points: programs that are
//! shipped cannot be told to kill themselves.

/// Marks the place with this name. Does nothing without debug assertions.
#[cfg(not(debug_assertions))]
#[inline]
pub fn reached(_name: &str) {}

/// Kills or stops the process if a variable names this place.
#[cfg(debug_assertions)]
pub fn reached(name: &str) {
    use nix::sys::signal::{Signal, raise};

    for (point, signal) in [
        (&armed::FAIL_AT, Signal::SIGKILL),
        (&armed::STOP_AT, Signal::SIGSTOP),
    ] {
        if point.as_ref().is_some_and(|point| point.is_due(name)) {
            raise(signal).expect("a process may signal itself");
        }
    }
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    };

    pub(super) static FAIL_AT: LazyLock<Option<FailAt>> =
        LazyLock::new(|| FailAt::of("LINKLEDGER_FAIL_AT"));
    pub(super) static STOP_AT: LazyLock<Option<FailAt>> =
        LazyLock::new(|| FailAt::of("LINKLEDGER_STOP_AT"));

    pub(super) struct FailAt {
        name: String,
        times_left: AtomicU32,
    }

    impl FailAt {
        fn of(variable: &str) -> Option<Self> {
            let setting = std::env::var(variable).ok()?;
            let fail_at = Self::parse(&setting);
            Some(fail_at.unwrap_or_else(|| panic!("{variable} is not NAME:TIMES")))
        }

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
        fn fail_point_fires_at_nth_visit() {
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
