//! The request of a command, with the checks that all commands share.

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, Uri},
};
use linkledger_core::{
    commands::{ChangeRequest, LinkChange},
    envelope::Metadata,
};
use linkledger_http::{
    authentication::Caller,
    problem::Problem,
    request::{AcceptedBody, RequestContext, check_accept, check_no_query, link_id},
};

use super::WriteState;

/// Request of an authenticated caller, without a query, whose `Accept` allows JSON.
pub struct CommandRequest {
    pub(super) state: WriteState,
    pub(super) context: RequestContext,
    pub(super) caller: Caller,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    body: Body,
}

impl FromRequest<WriteState> for CommandRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &WriteState) -> Result<Self, Problem> {
        check_no_query(request.uri())?;
        check_accept(request.headers())?;
        let (mut head, body) = request.into_parts();
        let context = head.extensions.remove::<RequestContext>();
        let caller = head.extensions.remove::<Caller>();
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

impl CommandRequest {
    /// Checks the headers of the body, and reads the body.
    ///
    /// # Errors
    /// Returns the problems of [`AcceptedBody::check`] and [`BodyRoom::read`](super::body::BodyRoom::read).
    pub(super) async fn read_body(&mut self, accepted: &AcceptedBody) -> Result<Vec<u8>, Problem> {
        accepted.check(&self.headers)?;
        let body = std::mem::take(&mut self.body);
        let account_id = self.caller.account_id;
        let read = self
            .state
            .bodies
            .read(account_id, body, accepted.length_max);
        read.await
    }

    /// Returns the change of the link that the path names.
    pub(super) fn change(&self, request: ChangeRequest) -> LinkChange {
        LinkChange {
            account_id: self.caller.account_id,
            link_id: link_id(&self.uri).ok(),
            request,
            metadata: self.metadata(),
        }
    }

    /// Returns the metadata of the events of the command: the caller's key and the request.
    pub(super) fn metadata(&self) -> Metadata {
        Metadata {
            actor: Some(self.caller.key_id.to_string()),
            request_id: Some(self.context.request_id().to_owned()),
            traceparent: Some(self.context.traceparent().to_owned()),
            ..Metadata::default()
        }
    }
}
