//! The decision to retry a call, and the backoff between attempts, without any I/O.

use std::time::Duration;

use reqwest::{
    StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};

use super::{ApiRefusal, ApiResponse};

/// First delay between two attempts, before jitter.
const DELAY_MIN: Duration = Duration::from_millis(200);
/// Longest delay between two attempts, unless the service asks for a longer delay.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// Code of a 503 that lasts: the operator must change a setting, or the owner rotate a secret.
const WEBHOOKS_OFF: &str = "webhooks_off";

/// Retry policy: limits of one call, attempts and waits together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryPolicy {
    pub(crate) attempts_max: u32,
    pub(crate) time_max: Duration,
}

impl RetryPolicy {
    /// For a command whose user waits for the result.
    pub(crate) const INTERACTIVE: Self = Self {
        attempts_max: 5,
        time_max: Duration::from_mins(1),
    };

    /// For work in bulk: long enough for a rate limit and for a restart of the service.
    pub(crate) const BULK: Self = Self {
        attempts_max: 200,
        time_max: Duration::from_mins(5),
    };

    /// Returns the wait before the next attempt, or `None` if there is to be no further attempt.
    ///
    /// Half of the delay is random jitter, so that callers that failed together do not retry
    /// together. The wait is never shorter than the service asks for.
    pub(crate) fn wait(
        self,
        attempts: u32,
        took: Duration,
        after: Duration,
        chance: u8,
    ) -> Option<Duration> {
        let delay = DELAY_MIN
            .saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1)))
            .min(DELAY_MAX);
        let half = delay / 2;
        let wait = after
            .max(half)
            .saturating_add(half * u32::from(chance) / 255);
        let is_before_deadline = took.saturating_add(wait) < self.time_max;
        (attempts < self.attempts_max && is_before_deadline).then_some(wait)
    }
}

/// Outcome of one attempt.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    Done(ApiResponse),
    Refused(ApiRefusal),
    NotTheApi(StatusCode),
    Retry(RetryCause),
}

/// Cause of a retry.
#[derive(Debug)]
pub(super) struct RetryCause {
    pub(super) reason: String,
    /// Shortest wait before the retry, as the service asks for.
    pub(super) after: Duration,
    /// True if the request may have taken effect although the attempt failed.
    pub(super) may_be_done: bool,
    /// The error of the API, if the answer has one.
    pub(super) refusal: Option<ApiRefusal>,
}

/// Decides whether the call succeeded, is retried or failed: by the status, and for a 409 by the code
/// in the body. If the body is no problem of the API, as from a proxy, 429 and 5xx are retried, and
/// any other unexpected status is [`AttemptOutcome::NotTheApi`].
pub(super) fn judge(expected: StatusCode, answer: ApiResponse) -> AttemptOutcome {
    let status = answer.status;
    if status == expected {
        return AttemptOutcome::Done(answer);
    }
    let refusal = ApiRefusal::parse(status, &answer.body);
    let code = refusal
        .as_ref()
        .map(|refusal| refusal.problem.code.as_str());
    let is_too_many = status == StatusCode::TOO_MANY_REQUESTS;
    if is_retried(status, code) {
        return AttemptOutcome::Retry(RetryCause {
            reason: reason(status, refusal.as_ref()),
            after: retry_after(&answer.headers),
            may_be_done: !is_too_many,
            refusal,
        });
    }
    let is_final = status.is_client_error() || code == Some(WEBHOOKS_OFF);
    match refusal {
        Some(refusal) if is_final => AttemptOutcome::Refused(refusal),
        _ => AttemptOutcome::NotTheApi(status),
    }
}

/// Returns true if a request, or an item of a batch, with this outcome is sent again.
pub(super) fn is_retried(status: StatusCode, code: Option<&str>) -> bool {
    let is_in_use = status == StatusCode::CONFLICT && code == Some("idempotency_key_in_use");
    let is_passing = status.is_server_error() && code != Some(WEBHOOKS_OFF);
    is_in_use || status == StatusCode::TOO_MANY_REQUESTS || is_passing
}

fn reason(status: StatusCode, refusal: Option<&ApiRefusal>) -> String {
    match refusal {
        Some(refusal) => refusal.to_string(),
        None => status.to_string(),
    }
}

/// Reads the header `Retry-After`; zero if the header is missing or gives a date.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn problem(code: &str) -> String {
        json!({ "code": code, "detail": "Do this.", "status": 0 }).to_string()
    }

    fn judged(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> String {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        let answer = ApiResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: body.to_owned().into(),
        };
        match judge(StatusCode::CREATED, answer) {
            AttemptOutcome::Done(_) => "done".to_owned(),
            AttemptOutcome::Refused(refusal) => format!("refused: {}", refusal.problem.code),
            AttemptOutcome::NotTheApi(_) => "not the api".to_owned(),
            AttemptOutcome::Retry(RetryCause { reason, after, .. }) => {
                format!("in {after:?}: {reason}")
            }
        }
    }

    #[test]
    fn only_the_expected_status_is_a_success() {
        assert_eq!(judged(201, &[], "{}"), "done");
        for status in [200, 202, 204, 301, 308, 400, 404, 409, 422] {
            assert_eq!(judged(status, &[], "<html>"), "not the api", "{status}");
            assert_eq!(judged(status, &[], "{}"), "not the api", "{status}");
        }
        assert_eq!(judged(200, &[], &problem("x")), "not the api");
    }

    #[test]
    fn refusal_of_the_service_is_not_retried() {
        for status in [400, 401, 402, 403, 404, 405, 409, 412, 413, 422] {
            assert_eq!(judged(status, &[], &problem("x")), "refused: x", "{status}");
        }
        let off = judged(503, &[], &problem("webhooks_off"));
        assert_eq!(off, "refused: webhooks_off");
    }

    #[test]
    fn transient_error_is_retried_with_any_body() {
        for (status, code) in [
            (409, "idempotency_key_in_use"),
            (429, "rate_limited"),
            (500, "internal_error"),
            (503, "overloaded"),
            (504, "deadline_exceeded"),
        ] {
            let expected = format!("in 0ns: {code}: Do this.");
            assert_eq!(judged(status, &[], &problem(code)), expected);
        }
        for (status, expected) in [
            (429, "in 0ns: 429 Too Many Requests"),
            (502, "in 0ns: 502 Bad Gateway"),
            (503, "in 0ns: 503 Service Unavailable"),
        ] {
            assert_eq!(judged(status, &[], "<html>"), expected);
        }
    }

    #[test]
    fn retry_after_in_seconds_delays_the_retry() {
        let wait = [("retry-after", "7")];
        assert_eq!(judged(429, &wait, &problem("x")), "in 7s: x: Do this.");
        assert_eq!(judged(503, &wait, ""), "in 7s: 503 Service Unavailable");
        let date = [("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")];
        assert_eq!(judged(429, &date, &problem("x")), "in 0ns: x: Do this.");
    }

    #[test]
    fn retry_delays_grow_to_their_maximum() {
        let wait = |attempts, chance| {
            RetryPolicy::BULK.wait(attempts, Duration::ZERO, Duration::ZERO, chance)
        };
        let milliseconds = |attempts| wait(attempts, u8::MAX).unwrap().as_millis();
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(milliseconds),
            [200, 400, 800, 1_600, 3_200, 5_000]
        );
        assert_eq!(wait(1, 0), Some(DELAY_MIN / 2));
        assert_eq!(wait(199, 0), Some(DELAY_MAX / 2));
        assert_eq!(wait(200, 0), None);
    }

    proptest! {
        #[test]
        fn retry_waits_respect_deadline_and_retry_after(
            took in 0..120_u64, after in any::<u64>(), attempts in 1..100_u32, chance in any::<u8>(),
        ) {
            let (took, after) = (Duration::from_secs(took), Duration::from_secs(after));
            let patience = RetryPolicy::INTERACTIVE;
            if let Some(wait) = patience.wait(attempts, took, after, chance) {
                prop_assert!(attempts < patience.attempts_max);
                prop_assert!(took + wait < patience.time_max);
                prop_assert!(wait >= after && wait <= after + DELAY_MAX);
            }
        }
    }
}
