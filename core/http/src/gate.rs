//! Checks before every route of the API: authentication, rate limit, scope, account.

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

    /// Passes the request on with its [`Caller`] as an extension, or answers with a problem.
    ///
    /// A read that takes too long is given up: its client, or a proxy, would do so a moment later, without a reason.
    /// A command goes on, since it may have its effect.
    async fn pass(State(gate): State<Self>, request: Request, next: Next) -> Response {
        if gate.class != RequestClass::Read {
            return gate.answer(request, next).await;
        }
        let answer = timeout(READ_ANSWER_TIME_MAX, gate.answer(request, next)).await;
        answer.unwrap_or_else(|_elapsed| {
            tracing::error!("a read took longer than {READ_ANSWER_TIME_MAX:?}");
            Problem::storage_unavailable().into_response()
        })
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
        caller.require_active_account()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkledger_event_store::time_limit::READ_TIME_MAX;

    #[test]
    fn reads_end_before_the_ingress_gives_up() {
        let reads = include_str!("../../../deploy/ingress/linkledger/reads.conf");
        let waits = reads.lines().find_map(|line| {
            let seconds = line.strip_prefix("proxy_read_timeout")?;
            seconds.trim().strip_suffix("s;")?.parse().ok()
        });
        let waits = Duration::from_secs(waits.unwrap());
        assert!(READ_TIME_MAX < READ_ANSWER_TIME_MAX && READ_ANSWER_TIME_MAX < waits);
    }
}
