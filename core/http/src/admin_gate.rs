//! Checks before every route of the admin API: authentication and scope (`docs/admin-api.md`).
//!
//! Admin keys are looked up for each request and never cached: no process accepts a revoked one.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::HeaderMap,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::MethodRouter,
};
use sqlx::PgPool;

use super::{
    authentication::check_times, bearer_token::bearer_token, gate::end_read_in_time,
    rate_limit::RequestClass, storage::read_in_time,
};
use crate::problem::Problem;
use linkledger_core::{
    api_key::{AdminKey, AdminScope},
    clock::Clock,
    id::AdminKeyId,
};
use linkledger_event_store::admin_keys;

/// Admin key of an authenticated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdminCaller {
    /// Id of the admin key: the actor of the request's events.
    pub key_id: AdminKeyId,
}

/// Requirements of the routes of one service's admin API.
#[derive(Clone)]
pub struct AdminGate {
    /// Sessions on the event store.
    pool: PgPool,
    clock: Arc<dyn Clock>,
    /// Class of the requests: reads have a time limit.
    class: RequestClass,
}

impl AdminGate {
    /// Returns the requirements of routes of this class.
    pub const fn new(pool: PgPool, clock: Arc<dyn Clock>, class: RequestClass) -> Self {
        Self { pool, clock, class }
    }

    /// Adds the requirements to a route: an admin key with the scope. An unknown method gets 405 before any other
    /// check. Handlers find the [`AdminCaller`] in the extensions.
    pub fn guard<S: Clone + Send + Sync + 'static>(
        &self,
        scope: AdminScope,
        route: MethodRouter<S>,
    ) -> MethodRouter<S> {
        let requirements = (self.clone(), scope);
        route.route_layer(middleware::from_fn_with_state(requirements, Self::pass))
    }

    async fn pass(
        State((gate, scope)): State<(Self, AdminScope)>,
        request: Request,
        next: Next,
    ) -> Response {
        let answer = gate.answer(scope, request, next);
        match gate.class {
            RequestClass::Read => end_read_in_time(answer).await,
            RequestClass::Write | RequestClass::Batch => answer.await,
        }
    }

    async fn answer(&self, scope: AdminScope, mut request: Request, next: Next) -> Response {
        match self.authenticate(request.headers(), scope).await {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Err(problem) => problem.into_response(),
        }
    }

    async fn authenticate(
        &self,
        headers: &HeaderMap,
        scope: AdminScope,
    ) -> Result<AdminCaller, Problem> {
        let key = AdminKey::parse(bearer_token(headers)?).ok_or_else(Problem::admin_key_invalid)?;
        let found = read_in_time(|| admin_keys::find(&self.pool, &key)).await?;
        let found = found.ok_or_else(Problem::admin_key_invalid)?;
        let now = self.clock.now();
        check_times(found.is_revoked, found.revoked_at, found.expires_at, now)?;
        if !found.scopes.contains(&scope) {
            return Err(Problem::insufficient_scope(scope.name()));
        }
        Ok(AdminCaller {
            key_id: found.key_id,
        })
    }
}
