//! The request of a command about webhooks, on either API, with the checks that all of them share.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, Uri, header::CACHE_CONTROL, request::Parts},
    response::{IntoResponse, Response},
};
use linkledger_core::{
    envelope::Metadata, field::FieldError, json::JsonObject, webhook::MasterKeys,
};
use linkledger_event_store::time_limit::{READ_TIME_MAX, within};
use linkledger_http::{
    admin_body::{self, parse_object},
    admin_gate::AdminCaller,
    authentication::Caller,
    per_account_limit::AccountShare,
    problem::Problem,
    request::{AcceptedBody, RequestContext, admin_idempotency_key, check_accept, check_no_query},
    route_table,
    storage::storage_unavailable,
};
use serde::Serialize;

use super::{OperatorsWebhooks, OwnersWebhooks, WebhookSettings, WebhookWrites};
use crate::{
    admin::{
        author::{Author, EffectKind, Request as Command},
        error::{AdminResult, Done},
        webhook::WebhookOwner,
    },
    admin_routes,
    routes::create_link::{IDEMPOTENCY_KEY, parse_idempotency_key},
};

/// Longest wait for the other commands of the account.
const SHARE_TIME_MAX: Duration = Duration::from_secs(2);
/// Detail of the problem of a command that waits longer.
const SHARE_IN_USE: &str = "Other changes of webhooks of this account are being made: retry later, with fewer requests \
                            at a time.";

/// Request of an owner or of an operator, without a query, whose `Accept` allows JSON.
pub struct WebhookRequest {
    call: WebhookCall,
    body: Body,
}

/// A request without its body.
pub(super) struct WebhookCall {
    pub(super) owner: WebhookOwner,
    pub(super) uri: Uri,
    state: Arc<WebhookWrites>,
    metadata: Metadata,
    headers: HeaderMap,
}

impl FromRequest<OwnersWebhooks> for WebhookRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &OwnersWebhooks) -> Result<Self, Problem> {
        Self::of(request, &state.0, |head| {
            let caller = head.extensions.remove::<Caller>();
            let caller = caller.ok_or_else(Problem::internal)?;
            let metadata = Metadata {
                actor: Some(caller.key_id.to_string()),
                ..Metadata::default()
            };
            Ok((WebhookOwner::Account(caller.account_id), metadata))
        })
    }
}

impl FromRequest<OperatorsWebhooks> for WebhookRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &OperatorsWebhooks) -> Result<Self, Problem> {
        Self::of(request, &state.0, |head| {
            let caller = head.extensions.remove::<AdminCaller>();
            let caller = caller.ok_or_else(Problem::internal)?;
            let metadata = Author::AdminKey(caller.key_id).metadata();
            Ok((WebhookOwner::Operators, metadata))
        })
    }
}

impl WebhookRequest {
    fn of(
        request: Request,
        state: &Arc<WebhookWrites>,
        owner: impl FnOnce(&mut Parts) -> Result<(WebhookOwner, Metadata), Problem>,
    ) -> Result<Self, Problem> {
        check_no_query(request.uri())?;
        check_accept(request.headers())?;
        let (mut head, body) = request.into_parts();
        let context = head.extensions.remove::<RequestContext>();
        let context = context.ok_or_else(Problem::internal)?;
        let (owner, metadata) = owner(&mut head)?;
        let call = WebhookCall {
            owner,
            uri: head.uri,
            state: Arc::clone(state),
            metadata: Metadata {
                request_id: Some(context.request_id().to_owned()),
                traceparent: Some(context.traceparent().to_owned()),
                ..metadata
            },
            headers: head.headers,
        };
        Ok(Self { call, body })
    }

    /// Returns a request whose body, if there is one, has no meaning.
    pub(super) fn without_body(self) -> WebhookCall {
        self.call
    }

    /// Reads the body.
    ///
    /// # Errors
    /// Returns the problems of [`AcceptedBody::check`], `content_too_large`, `overloaded`, `malformed_json` or
    /// `body_not_object`.
    pub(super) async fn object(
        self,
        accepted: &AcceptedBody,
    ) -> Result<(WebhookCall, JsonObject), Problem> {
        let (call, bytes) = self.read_body(accepted).await?;
        Ok((call, parse_object(&bytes)?))
    }

    /// Reads the body and the idempotency key, if there is one.
    ///
    /// # Errors
    /// Returns the problems of [`Self::object`] or `idempotency_key_invalid`.
    pub(super) async fn keyed_object(
        self,
    ) -> Result<(WebhookCall, Option<String>, JsonObject), Problem> {
        let (call, bytes) = self.read_body(&AcceptedBody::JSON).await?;
        let key = call.idempotency_key()?;
        Ok((call, key, parse_object(&bytes)?))
    }

    async fn read_body(self, accepted: &AcceptedBody) -> Result<(WebhookCall, Vec<u8>), Problem> {
        let Self { call, body } = self;
        let bytes = match call.owner {
            WebhookOwner::Account(account_id) => {
                accepted.check(&call.headers)?;
                let bodies = &call.state.bodies;
                bodies.read(account_id, body, accepted.length_max).await?
            }
            WebhookOwner::Operators => {
                let bytes = admin_body::read_body(&call.headers, body, accepted).await?;
                bytes.into()
            }
        };
        Ok((call, bytes))
    }
}

impl WebhookCall {
    /// Returns the keys from which secrets are derived.
    ///
    /// # Errors
    /// Returns `webhooks_off` if the installation has none.
    pub(super) fn master_keys(&self) -> Result<&MasterKeys, Problem> {
        let keys = self.settings().master_keys.as_ref();
        keys.ok_or_else(Problem::webhooks_off)
    }

    pub(super) fn settings(&self) -> &WebhookSettings {
        &self.state.settings
    }

    fn idempotency_key(&self) -> Result<Option<String>, Problem> {
        if !self.headers.contains_key(IDEMPOTENCY_KEY) {
            return Ok(None);
        }
        let key = match self.owner {
            WebhookOwner::Account(_) => {
                let key = parse_idempotency_key(&self.headers)?;
                key.0.hyphenated().to_string()
            }
            WebhookOwner::Operators => admin_idempotency_key(&self.headers)?,
        };
        Ok(Some(key))
    }

    /// Returns the parsed body. The problem of a body that is not valid is that of its key, if an earlier request has
    /// used the key.
    ///
    /// # Errors
    /// Returns `validation_failed`, `idempotency_key_reused`, `overloaded` or `storage_unavailable`.
    pub(super) async fn valid<T>(
        &self,
        (kind, key): (EffectKind, Option<&str>),
        parsed: Result<T, Vec<FieldError>>,
    ) -> Result<T, Problem> {
        let errors = match parsed {
            Ok(body) => return Ok(body),
            Err(errors) => errors,
        };
        if let Some(key) = key
            && self.is_used(kind, key).await?
        {
            return Err(Problem::idempotency_key_reused());
        }
        Err(Problem::validation_failed(&errors))
    }

    async fn is_used(&self, kind: EffectKind, key: &str) -> Result<bool, Problem> {
        let pool = &self.state.pool;
        match self.owner {
            WebhookOwner::Account(account_id) => {
                let _share = self.share().await?;
                let used = admin_routes::is_used_by(pool, account_id, kind, key);
                let used = within(READ_TIME_MAX, used).await;
                used.map_err(|error| storage_unavailable(&error))
            }
            WebhookOwner::Operators => admin_routes::is_used(pool, &self.uri, kind, key).await,
        }
    }

    /// Returns the circumstances of the command: the caller's key and the request.
    pub(super) fn command(&self, idempotency_key: Option<String>) -> Command<'_> {
        Command {
            pool: &self.state.pool,
            clock: &*self.state.clock,
            metadata: self.metadata.clone(),
            idempotency_key,
        }
    }

    /// Runs a command, once the other commands of the account leave it a session.
    ///
    /// # Errors
    /// Returns `overloaded`, or the problem of a command without a known effect.
    pub(super) async fn run<T>(
        &self,
        command: impl Future<Output = AdminResult<T>>,
    ) -> Result<T, Problem> {
        let _share = self.share().await?;
        admin_routes::outcome(command).await
    }

    /// Waits for the account's share of the sessions. Operators wait for each other only.
    async fn share(&self) -> Result<Option<AccountShare>, Problem> {
        let WebhookOwner::Account(account_id) = self.owner else {
            return Ok(None);
        };
        let shares = &self.state.shares;
        let share = shares.acquire_in_time(account_id, SHARE_TIME_MAX, SHARE_IN_USE);
        share.await.map(Some)
    }

    /// Returns the answer to a command.
    pub(super) fn answer<T: Serialize>(&self, status: StatusCode, done: &Done<T>) -> Response {
        let response = admin_routes::replayable(status, done);
        self.with_token(response, done)
    }

    /// Returns the answer to a command that leaves nothing to show.
    pub(super) fn empty_answer(&self, done: &Done<()>) -> Response {
        let headers = [(CACHE_CONTROL, "no-store")];
        let response = (StatusCode::NO_CONTENT, headers).into_response();
        self.with_token(response, done)
    }

    /// Adds the token of the command's last event. Operators read from the event store, and need none.
    fn with_token<T>(&self, mut response: Response, done: &Done<T>) -> Response {
        if let (WebhookOwner::Account(account_id), Some(position)) = (self.owner, done.position) {
            let epoch = self.state.log_epoch.get();
            admin_routes::add_token(&mut response, epoch, account_id, position);
        }
        response
    }

    /// Returns the path of the webhooks.
    pub(super) const fn collection(&self) -> &'static str {
        match self.owner {
            WebhookOwner::Account(_) => route_table::WEBHOOKS,
            WebhookOwner::Operators => route_table::ADMIN_WEBHOOKS,
        }
    }
}
