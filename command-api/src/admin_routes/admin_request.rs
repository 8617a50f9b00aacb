//! The request of an admin command, with the checks that all commands share.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, Uri},
};
use linkledger_core::{field::FieldError, id::AccountId, json::JsonObject};
use linkledger_http::{
    admin_body::{self, parse_object},
    admin_gate::AdminCaller,
    problem::Problem,
    request::{
        AcceptedBody, RequestContext, account_id, admin_idempotency_key, check_accept,
        check_no_query,
    },
};
use tokio::time::timeout;

use super::{AdminState, problem_of_error, used_key};
use crate::admin::{
    author::{Author, EffectKind, Request as Command},
    error::AdminResult,
};

/// Longest time of a command; then its outcome is unknown. With the look-ups before it, below the 17 s after which an
/// ingress gives up.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(8);

/// Request with an admin key, without a query, whose `Accept` allows JSON.
pub struct AdminRequest {
    pub(super) state: AdminState,
    context: RequestContext,
    pub(super) caller: AdminCaller,
    pub(super) uri: Uri,
    headers: HeaderMap,
    body: Body,
}

impl FromRequest<AdminState> for AdminRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AdminState) -> Result<Self, Problem> {
        check_no_query(request.uri())?;
        check_accept(request.headers())?;
        let (mut head, body) = request.into_parts();
        let context = head.extensions.remove::<RequestContext>();
        let caller = head.extensions.remove::<AdminCaller>();
        Ok(Self {
            state: state.clone(),
            context: context.ok_or_else(Problem::internal)?,
            caller: caller.ok_or_else(Problem::internal)?,
            uri: head.uri,
            headers: head.headers,
            body,
        })
    }
}

impl AdminRequest {
    /// Reads the body and the idempotency key of a POST.
    ///
    /// # Errors
    /// Returns the problems of [`AcceptedBody::check`], `content_too_large`, those of [`admin_idempotency_key`],
    /// `malformed_json` or `body_not_object`.
    pub(super) async fn keyed_object(&mut self) -> Result<(String, JsonObject), Problem> {
        let bytes = self.read_body(&AcceptedBody::JSON).await?;
        let key = admin_idempotency_key(&self.headers)?;
        Ok((key, parse_object(&bytes)?))
    }

    /// Reads the body of a request without an idempotency key.
    ///
    /// # Errors
    /// Returns the problems of [`AcceptedBody::check`], `content_too_large`, `malformed_json` or `body_not_object`.
    pub(super) async fn object(&mut self, accepted: &AcceptedBody) -> Result<JsonObject, Problem> {
        parse_object(&self.read_body(accepted).await?)
    }

    async fn read_body(&mut self, accepted: &AcceptedBody) -> Result<Bytes, Problem> {
        let body = std::mem::take(&mut self.body);
        admin_body::read_body(&self.headers, body, accepted).await
    }

    /// Returns the parsed body of a POST. The problem of a body that is not valid is that of its key, if an earlier
    /// request has used the key: with a valid body, so with another one.
    ///
    /// # Errors
    /// Returns `validation_failed`, `idempotency_key_reused` or `storage_unavailable`.
    // Borrows parts of the request, since the body must not be shared between threads.
    pub(super) fn valid<'a, T>(
        &'a self,
        (kind, key): (EffectKind, &'a str),
        parsed: Result<T, Vec<FieldError>>,
    ) -> impl Future<Output = Result<T, Problem>> + use<'a, T> {
        let (pool, uri) = (&self.state.pool, &self.uri);
        async move {
            let errors = match parsed {
                Ok(body) => return Ok(body),
                Err(errors) => errors,
            };
            if used_key::is_used(pool, uri, kind, key).await? {
                return Err(Problem::idempotency_key_reused());
            }
            Err(Problem::validation_failed(&errors))
        }
    }

    /// Returns the account that the path names.
    ///
    /// # Errors
    /// Returns `account_not_found` if the path has no account id.
    pub(super) fn account_id(&self) -> Result<AccountId, Problem> {
        account_id(&self.uri)
    }

    /// Returns the circumstances of the command: the caller's key and the request.
    pub(super) fn command(&self, idempotency_key: Option<String>) -> Command<'_> {
        let author = Author::AdminKey(self.caller.key_id);
        let command = Command::new(&self.state.pool, &*self.state.clock, &author);
        Command {
            idempotency_key,
            ..command.of_http(&self.context)
        }
    }
}

/// Waits for the outcome of a command, up to a time limit.
///
/// # Errors
/// Returns the problem of a command without a known effect.
pub(crate) async fn outcome<T>(
    command: impl Future<Output = AdminResult<T>>,
) -> Result<T, Problem> {
    let Ok(outcome) = timeout(COMMAND_TIME_MAX, command).await else {
        tracing::error!("an admin command took longer than {COMMAND_TIME_MAX:?}");
        return Err(Problem::deadline_exceeded());
    };
    outcome.map_err(|error| problem_of_error::problem(&error))
}

#[cfg(test)]
mod tests {
    use linkledger_event_store::time_limit::READ_TIME_MAX;

    use super::*;

    #[test]
    fn commands_end_before_the_ingress_gives_up() {
        let commands = include_str!("../../../deploy/ingress/linkledger/commands.conf");
        let waits = commands.lines().find_map(|line| {
            let seconds = line.strip_prefix("proxy_read_timeout")?;
            seconds.trim().strip_suffix("s;")?.parse().ok()
        });
        // The look-up of the admin key, and that of the idempotency key of an invalid body.
        let longest = COMMAND_TIME_MAX + 2 * READ_TIME_MAX;
        assert!(longest < Duration::from_secs(waits.unwrap()));
    }
}
