//! Rate limits by account and class: GCRA, counted in this process (`docs/api.md#rate-limits`).
//!
//! A refused request takes nothing from its limit. So the items of a batch are counted together, after its body is
//! read; what is counted before is the batch, in a class of its own.

use std::{num::NonZeroU32, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DashMapStateStore,
};

use crate::problem::Problem;
use linkledger_core::id::AccountId;

/// Size of the burst, in seconds of the rate.
const BURST_SECONDS: u32 = 2;
/// Number of accounts in memory above which accounts with a full burst are removed.
const ACCOUNTS_KEPT: usize = 10_000;

linkledger_core::named_enum! {
    /// Class of a request. Each class has a limit of its own.
    pub enum RequestClass {
        /// Requests with GET or HEAD.
        Read = "read",
        /// All other requests, and each item of a batch.
        Write = "write",
        /// Batches, before their items are known: bounds the bodies that are read in vain.
        Batch = "batch",
    }
}

type Limiter =
    RateLimiter<AccountId, DashMapStateStore<AccountId>, DefaultClock, StateInformationMiddleware>;

/// Rate limits of one process.
pub struct RateLimits {
    per_second: NonZeroU32,
    read: Limiter,
    write: Limiter,
    batch: Limiter,
}

/// Header values that inform the caller about the limit.
#[derive(Debug, Clone)]
pub struct RateLimitHeaders {
    /// Value of `RateLimit-Policy`.
    pub policy: String,
    /// Value of `RateLimit`.
    pub state: String,
}

/// Time until requests that were refused can pass.
struct Wait {
    time: Duration,
    /// Number of the requests.
    count: NonZeroU32,
}

impl Wait {
    /// Returns whole seconds: who waits as long is not too early.
    fn seconds(&self) -> u64 {
        let is_fractional = self.time.subsec_nanos() > 0;
        (self.time.as_secs() + u64::from(is_fractional)).max(1)
    }

    /// Returns the number of requests that can pass at once: the others are those that the limit gains meanwhile.
    fn remaining(&self, per_second: NonZeroU32) -> u32 {
        let gained = self.time.as_nanos() * u128::from(per_second.get());
        let gained = gained.div_ceil(Duration::from_secs(1).as_nanos());
        let gained = u32::try_from(gained).unwrap_or(u32::MAX);
        self.count.get().saturating_sub(gained)
    }
}

impl RateLimitHeaders {
    /// Adds the headers, unless a later check has added them already.
    ///
    /// # Panics
    /// Never panics: the values consist of digits, letters and quotes.
    pub fn add_to(self, headers: &mut HeaderMap) {
        for (name, value) in [("ratelimit-policy", self.policy), ("ratelimit", self.state)] {
            let value = HeaderValue::from_str(&value).expect("digits, letters and quotes");
            headers
                .entry(HeaderName::from_static(name))
                .or_insert(value);
        }
    }
}

impl RateLimits {
    /// Returns the limits, or `None` if `per_second` is 0: no limit.
    pub fn new(per_second: u32) -> Option<Self> {
        let per_second = NonZeroU32::new(per_second)?;
        let burst = per_second.saturating_mul(NonZeroU32::new(BURST_SECONDS)?);
        let quota = Quota::per_second(per_second).allow_burst(burst);
        let limiter =
            || RateLimiter::dashmap(quota).with_middleware::<StateInformationMiddleware>();
        Some(Self {
            per_second,
            read: limiter(),
            write: limiter(),
            batch: limiter(),
        })
    }

    /// Counts a request.
    ///
    /// # Errors
    /// Returns `rate_limited`, with the seconds to wait.
    pub fn check(
        &self,
        account_id: AccountId,
        class: RequestClass,
    ) -> Result<RateLimitHeaders, Problem> {
        let counted = self.count(account_id, class, NonZeroU32::MIN);
        counted.map_err(|wait| {
            self.refusal(class, &wait, &format!("the next {} request", class.name()))
        })
    }

    /// Counts the items of a batch as writes: all of them, or none. They count at most as a whole burst, so that a
    /// batch passes at the latest when its account has sent no other write for two seconds.
    ///
    /// # Errors
    /// Returns `rate_limited`, with the seconds to wait until all items can pass.
    pub fn check_items(
        &self,
        account_id: AccountId,
        items: usize,
    ) -> Result<RateLimitHeaders, Problem> {
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        let count = NonZeroU32::new(items.min(self.burst())).unwrap_or(NonZeroU32::MIN);
        let class = RequestClass::Write;
        let counted = self.count(account_id, class, count);
        counted.map_err(|wait| {
            let batch = format!("this batch, whose items count as {count} write requests");
            self.refusal(class, &wait, &batch)
        })
    }

    /// Counts requests of a class: all, or none.
    fn count(
        &self,
        account_id: AccountId,
        class: RequestClass,
        count: NonZeroU32,
    ) -> Result<RateLimitHeaders, Wait> {
        let limiter = match class {
            RequestClass::Read => &self.read,
            RequestClass::Write => &self.write,
            RequestClass::Batch => &self.batch,
        };
        if limiter.len() > ACCOUNTS_KEPT {
            limiter.retain_recent();
        }
        // The burst has room for each count.
        let checked = limiter.check_key_n(&account_id, count);
        match checked.unwrap_or_else(|_| limiter.check_key(&account_id)) {
            Ok(state) => Ok(self.headers(class, state.remaining_burst_capacity())),
            Err(not_until) => {
                let time = not_until.wait_time_from(limiter.clock().now());
                Err(Wait { time, count })
            }
        }
    }

    fn refusal(&self, class: RequestClass, wait: &Wait, what: &str) -> Problem {
        let remaining = wait.remaining(self.per_second);
        let headers = self.headers(class, remaining);
        Problem::rate_limited(wait.seconds(), what)
            .with_header("ratelimit-policy", headers.policy)
            .with_header("ratelimit", headers.state)
    }

    const fn burst(&self) -> u32 {
        self.per_second.get().saturating_mul(BURST_SECONDS)
    }

    fn headers(&self, class: RequestClass, remaining: u32) -> RateLimitHeaders {
        let (name, per_second) = (class.name(), self.per_second.get());
        let burst = self.burst();
        let full_in = burst.saturating_sub(remaining).div_ceil(per_second);
        RateLimitHeaders {
            policy: format!("\"{name}\";q={burst};w={BURST_SECONDS}"),
            state: format!("\"{name}\";r={remaining};t={full_in}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::problem::Code;

    #[test]
    fn requests_over_the_burst_must_wait() {
        let limits = RateLimits::new(1).unwrap();
        let account_id = AccountId::from_uuid(Uuid::from_u128(1));
        let first = limits.check(account_id, RequestClass::Write).unwrap();
        assert_eq!(first.policy, "\"write\";q=2;w=2");
        assert_eq!(first.state, "\"write\";r=1;t=1");
        assert!(limits.check(account_id, RequestClass::Write).is_ok());
        let problem = limits.check(account_id, RequestClass::Write).unwrap_err();
        assert_eq!(problem.code, Code::RateLimited);
        assert!(problem.headers.contains(&("retry-after", "1".to_owned())));
        // Reads and other accounts have separate limits.
        assert!(limits.check(account_id, RequestClass::Read).is_ok());
        let other = AccountId::from_uuid(Uuid::from_u128(2));
        assert!(limits.check(other, RequestClass::Write).is_ok());
    }

    fn header(problem: &Problem, name: &str) -> String {
        let mut headers = problem.headers.iter();
        let found = headers.find(|(given, _)| *given == name);
        found.unwrap().1.clone()
    }

    #[test]
    fn items_count_at_most_as_a_burst() {
        let account_id = AccountId::from_uuid(Uuid::from_u128(1));
        let limits = RateLimits::new(1).unwrap();
        let headers = limits.check_items(account_id, 100).unwrap();
        assert_eq!(headers.state, "\"write\";r=0;t=2");
        assert!(limits.check(account_id, RequestClass::Write).is_err());
        // A burst of 200 has room for two requests with 100 items.
        let limits = RateLimits::new(100).unwrap();
        for _ in 0..2 {
            assert!(limits.check_items(account_id, 100).is_ok());
        }
        let refused = limits.check_items(account_id, 100).unwrap_err();
        assert_eq!(refused.code, Code::RateLimited);
        assert_eq!(header(&refused, "retry-after"), "1");
    }

    #[test]
    fn refused_batch_takes_nothing_and_names_its_wait() {
        let account_id = AccountId::from_uuid(Uuid::from_u128(1));
        // A burst of 40, and 20 for each elapsed second.
        let limits = RateLimits::new(20).unwrap();
        assert!(limits.check_items(account_id, 39).is_ok());
        for _ in 0..100 {
            let refused = limits.check_items(account_id, 40).unwrap_err();
            assert_eq!(header(&refused, "retry-after"), "2");
        }
        let state = limits.check_items(account_id, 30).unwrap_err();
        assert_eq!(header(&state, "retry-after"), "2");
        assert!(header(&state, "ratelimit").starts_with("\"write\";r="));
        assert!(limits.check_items(account_id, 1).is_ok());
    }

    #[test]
    fn wait_is_rounded_up_to_whole_seconds() {
        let wait = |nanos| Wait {
            time: Duration::from_nanos(nanos),
            count: NonZeroU32::new(10).unwrap(),
        };
        for (nanos, seconds) in [
            (1, 1),
            (1_000_000_000, 1),
            (1_000_500_000, 2),
            (2_000_000_000, 2),
        ] {
            assert_eq!(wait(nanos).seconds(), seconds, "{nanos}");
        }
        let per_second = NonZeroU32::new(4).unwrap();
        assert_eq!(wait(1_500_000_000).remaining(per_second), 4);
        assert_eq!(wait(1_500_000_001).remaining(per_second), 3);
        assert_eq!(wait(9_000_000_000).remaining(per_second), 0);
    }

    #[test]
    fn zero_means_no_limit() {
        assert!(RateLimits::new(0).is_none());
    }
}
