//! Checks before every route of the API: authentication, rate limit, scope, account.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    authentication::{Authenticator, Caller},
    rate_limit::{RateLimitHeaders, RateLimits, RequestClass},
};
use crate::{api_key::Scope, problem::Problem};

/// Requirements of a route. Used as a layer, by `from_fn_with_state` with [`RouteGate::pass`].
#[derive(Clone)]
pub struct RouteGate {
    /// Authenticates the caller.
    pub authenticator: Arc<Authenticator>,
    /// Rate limits; `None` for no limit.
    pub rate_limits: Option<Arc<RateLimits>>,
    /// Scope that the key must have.
    pub scope: Scope,
    /// Class in which the request is counted.
    pub class: RequestClass,
}

impl RouteGate {
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
            insert(&mut response, headers);
        }
        response
    }

    fn admit(&self, caller: &Caller) -> Result<(), Problem> {
        caller.require(self.scope)?;
        caller.require_active_account()
    }
}

fn insert(response: &mut Response, headers: RateLimitHeaders) {
    for (name, value) in [
        ("ratelimit-policy", headers.policy),
        ("ratelimit", headers.state),
    ] {
        let value = HeaderValue::from_str(&value).expect("digits, letters and quotes");
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), value);
    }
}
