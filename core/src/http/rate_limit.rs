//! Rate limits by account and class: GCRA, counted in this process (`docs/api.md#rate-limits`).

use std::{num::NonZeroU32, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DashMapStateStore,
};

use crate::{
    id::AccountId,
    problem::{Code, Problem},
};

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
        let limiter = match class {
            RequestClass::Read => &self.read,
            RequestClass::Write => &self.write,
        };
        if limiter.len() > ACCOUNTS_KEPT {
            limiter.retain_recent();
        }
        match limiter.check_key(&account_id) {
            Ok(state) => Ok(self.headers(class, state.remaining_burst_capacity())),
            Err(not_until) => {
                let wait = not_until.wait_time_from(limiter.clock().now());
                let seconds = (wait + Duration::from_millis(999)).as_secs().max(1);
                let headers = self.headers(class, 0);
                let detail = format!("Wait {seconds} s before the next {} request.", class.name());
                Err(Problem::new(Code::RateLimited, detail)
                    .retry_after(seconds)
                    .with_header("ratelimit-policy", headers.policy)
                    .with_header("ratelimit", headers.state))
            }
        }
    }

    fn headers(&self, class: RequestClass, remaining: u32) -> RateLimitHeaders {
        let (name, per_second) = (class.name(), self.per_second.get());
        let burst = per_second.saturating_mul(BURST_SECONDS);
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
    fn zero_means_no_limit() {
        assert!(RateLimits::new(0).is_none());
    }
}
