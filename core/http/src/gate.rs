//! Checks before every route of the public API: authentication, rate limit, scope, account.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::MethodRouter,
};

use tokio::time::timeout;

use super::{
    authentication::{Authenticator, Caller},
    rate_limit::{RateLimits, RequestClass},
};
use crate::problem::Problem;
use linkledger_core::api_key::Scope;

/// Longest time until a read is answered, with all its statements and waits: below the 5 s after which the ingress
/// gives up.
const READ_ANSWER_TIME_MAX: Duration = Duration::from_millis(4_500);

/// Longest time for which a request may ask a read to wait, in seconds. The ingress waits longer at the routes that
/// offer it.
pub const WAIT_SECONDS_MAX: u8 = 25;

/// Requirements of a route.
#[derive(Clone)]
pub struct RouteGate {
    authenticator: Arc<Authenticator>,
    /// Rate limits; `None` for no limit.
    rate_limits: Option<Arc<RateLimits>>,
    /// Class in which the requests are counted.
    pub class: RequestClass,
    /// Scope that the key must have.
    pub scope: Scope,
    /// True if a suspended account may call the route too.
    pub serves_suspended_accounts: bool,
    /// True if a request may ask the route to wait, for [`WAIT_SECONDS_MAX`] at most.
    pub may_wait: bool,
}

impl RouteGate {
    /// Returns the requirements of a route. Requests are counted in the class, up to `rate_limit` per
    /// second of an account; 0 for no limit.
    pub fn new(
        authenticator: Authenticator,
        rate_limit: u32,
        class: RequestClass,
        scope: Scope,
    ) -> Self {
        Self {
            authenticator: Arc::new(authenticator),
            rate_limits: RateLimits::new(rate_limit).map(Arc::new),
            class,
            scope,
            serves_suspended_accounts: false,
            may_wait: false,
        }
    }

    /// Returns the rate limits, for requests that count more than once; `None` for no limit.
    pub fn rate_limits(&self) -> Option<Arc<RateLimits>> {
        self.rate_limits.clone()
    }

    /// Adds the requirements to a route. An unknown method gets 405 before any other check.
    pub fn guard<S: Clone + Send + Sync + 'static>(
        &self,
        route: MethodRouter<S>,
    ) -> MethodRouter<S> {
        route.route_layer(middleware::from_fn_with_state(self.clone(), Self::pass))
    }

    /// Passes the request on with its [`Caller`] as an extension, or answers with a problem. A command has no time
    /// limit here, since it may have its effect.
    async fn pass(State(gate): State<Self>, request: Request, next: Next) -> Response {
        let answer = gate.answer(request, next);
        match gate.class {
            RequestClass::Read => end_within(gate.answer_time_max(), answer).await,
            RequestClass::Write | RequestClass::Batch => answer.await,
        }
    }

    /// Returns the longest time until a read of the route is answered.
    fn answer_time_max(&self) -> Duration {
        if self.may_wait {
            READ_ANSWER_TIME_MAX + Duration::from_secs(WAIT_SECONDS_MAX.into())
        } else {
            READ_ANSWER_TIME_MAX
        }
    }

    async fn answer(&self, mut request: Request, next: Next) -> Response {
        let caller = match self.authenticator.authenticate(request.headers()).await {
            Ok(caller) => caller,
            Err(problem) => return problem.into_response(),
        };
        let limits = self.rate_limits.as_ref();
        let headers = match limits.map(|limits| limits.check(caller.account_id, self.class)) {
            Some(Err(problem)) => return problem.into_response(),
            Some(Ok(headers)) => Some(headers),
            None => None,
        };
        let mut response = match self.admit(&caller) {
            Ok(()) => {
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Err(problem) => problem.into_response(),
        };
        if let Some(headers) = headers {
            headers.add_to(response.headers_mut());
        }
        response
    }

    fn admit(&self, caller: &Caller) -> Result<(), Problem> {
        caller.require(self.scope)?;
        if self.serves_suspended_accounts {
            return Ok(());
        }
        caller.require_active_account()
    }
}

/// Gives a read up that takes too long: its client, or a proxy, would do so a moment later, without a reason.
pub(super) async fn end_read_in_time(answer: impl Future<Output = Response>) -> Response {
    end_within(READ_ANSWER_TIME_MAX, answer).await
}

async fn end_within(time_max: Duration, answer: impl Future<Output = Response>) -> Response {
    let answer = timeout(time_max, answer).await;
    answer.unwrap_or_else(|_elapsed| {
        tracing::error!("a read took longer than {time_max:?}");
        Problem::storage_unavailable().into_response()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkledger_event_store::time_limit::READ_TIME_MAX;

    /// Returns the longest wait of the ingress for a service, from the first line of a configuration that has one.
    fn read_timeout(configuration: &str) -> Duration {
        let seconds = configuration.lines().find_map(|line| {
            let seconds = line.trim().strip_prefix("proxy_read_timeout")?;
            seconds.trim().strip_suffix("s;")?.parse().ok()
        });
        Duration::from_secs(seconds.unwrap())
    }

    #[test]
    fn reads_end_before_the_ingress_gives_up() {
        let waits = read_timeout(include_str!(
            "../../../deploy/ingress/linkledger/reads.conf"
        ));
        assert!(READ_TIME_MAX < READ_ANSWER_TIME_MAX && READ_ANSWER_TIME_MAX < waits);
        // Only the location of the routes that may wait has a time of its own.
        let waits = read_timeout(include_str!("../../../deploy/ingress/linkledger.conf"));
        let asked = Duration::from_secs(WAIT_SECONDS_MAX.into());
        assert!(asked + READ_ANSWER_TIME_MAX < waits);
    }
}
