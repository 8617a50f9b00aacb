//! Rate limits by account and class: GCRA, counted in this process (`docs/api.md#rate-limits`).

use std::{num::NonZeroU32, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DashMapStateStore,
};

use crate::{id::AccountId, problem::Problem};

/// Size of the burst, in seconds of the rate.
const BURST_SECONDS: u32 = 2;
/// Number of accounts in memory above which accounts with a full burst are removed.
const ACCOUNTS_KEPT: usize = 10_000;

/// Class of a request; reads and writes have separate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestClass {
    /// Requests with GET or HEAD.
    Read,
    /// All other requests.
    Write,
}

impl RequestClass {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

type Limiter =
    RateLimiter<AccountId, DashMapStateStore<AccountId>, DefaultClock, StateInformationMiddleware>;

/// Rate limits of one process.
pub struct RateLimits {
    per_second: NonZeroU32,
    read: Limiter,
    write: Limiter,
}

/// Header values that inform the caller about the limit.
#[derive(Debug, Clone)]
pub struct RateLimitHeaders {
    /// Value of `RateLimit-Policy`.
    pub policy: String,
    /// Value of `RateLimit`.
    pub state: String,
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
        self.check_many(account_id, class, NonZeroU32::MIN)
    }

    /// Counts the other items of a request that was counted once, whose number became known later.
    /// The items of a request count at most as a whole burst, so that a request can always pass.
    /// Returns `None` if nothing is left to count.
    ///
    /// # Errors
    /// Returns `rate_limited`, with the seconds to wait.
    pub fn check_other_items(
        &self,
        account_id: AccountId,
        class: RequestClass,
        items: usize,
    ) -> Result<Option<RateLimitHeaders>, Problem> {
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        let others = items.min(self.burst()).saturating_sub(1);
        let others = NonZeroU32::new(others);
        others
            .map(|others| self.check_many(account_id, class, others))
            .transpose()
    }

    fn check_many(
        &self,
        account_id: AccountId,
        class: RequestClass,
        count: NonZeroU32,
    ) -> Result<RateLimitHeaders, Problem> {
        let limiter = match class {
            RequestClass::Read => &self.read,
            RequestClass::Write => &self.write,
        };
        if limiter.len() > ACCOUNTS_KEPT {
            limiter.retain_recent();
        }
        // The burst has room for each count.
        let checked = limiter.check_key_n(&account_id, count);
        match checked.unwrap_or_else(|_| limiter.check_key(&account_id)) {
            Ok(state) => Ok(self.headers(class, state.remaining_burst_capacity())),
            Err(not_until) => {
                let wait = not_until.wait_time_from(limiter.clock().now());
                let seconds = (wait + Duration::from_millis(999)).as_secs().max(1);
                let headers = self.headers(class, 0);
                Err(Problem::rate_limited(seconds, class.name())
                    .with_header("ratelimit-policy", headers.policy)
                    .with_header("ratelimit", headers.state))
            }
        }
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

    #[test]
    fn items_count_at_most_as_a_burst() {
        let account_id = AccountId::from_uuid(Uuid::from_u128(1));
        let write = RequestClass::Write;
        let limits = RateLimits::new(1).unwrap();
        let others =
            |limits: &RateLimits, items| limits.check_other_items(account_id, write, items);
        assert!(limits.check(account_id, write).is_ok());
        assert!(others(&limits, 1).unwrap().is_none());
        let headers = others(&limits, 100).unwrap();
        assert_eq!(headers.unwrap().state, "\"write\";r=0;t=2");
        assert!(limits.check(account_id, write).is_err());
        // A burst of 200 has room for two requests with 100 items.
        let limits = RateLimits::new(100).unwrap();
        for _ in 0..2 {
            assert!(limits.check(account_id, write).is_ok());
            assert!(others(&limits, 100).unwrap().is_some());
        }
        let refused = others(&limits, 100).unwrap_err();
        assert_eq!(refused.code, Code::RateLimited);
    }

    #[test]
    fn zero_means_no_limit() {
        assert!(RateLimits::new(0).is_none());
    }
}
