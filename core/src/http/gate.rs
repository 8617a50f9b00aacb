//! Checks before every route of the API: authentication, rate limit, scope, account.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    authentication::{Authenticator, Caller},
    rate_limit::{RateLimits, RequestClass},
};
use crate::{api_key::Scope, problem::Problem};

/// Requirements of a route. Used as a layer, by `from_fn_with_state` with [`RouteGate::pass`].
#[derive(Clone)]
pub struct RouteGate {
    authenticator: Arc<Authenticator>,
    /// Rate limits; `None` for no limit.
    rate_limits: Option<Arc<RateLimits>>,
    class: RequestClass,
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

    /// Passes the request on with its [`Caller`] as an extension, or answers with a problem.
    pub async fn pass(State(gate): State<Self>, mut request: Request, next: Next) -> Response {
        let caller = match gate.authenticator.authenticate(request.headers()).await {
            Ok(caller) => caller,
            Err(problem) => return problem.into_response(),
        };
        let limits = gate.rate_limits.as_ref();
        let headers = match limits.map(|limits| limits.check(caller.account_id, gate.class)) {
            Some(Err(problem)) => return problem.into_response(),
            Some(Ok(headers)) => Some(headers),
            None => None,
        };
        let mut response = match gate.admit(&caller) {
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
