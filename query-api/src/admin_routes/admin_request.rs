//! The request of a read of the admin API, and what most reads share.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, Uri, request::Parts},
};
use linkledger_core::{cursor::CursorScope, event::DecodeError, id::AccountId};
use linkledger_event_store::accounts::{self, ListedAccount};
use linkledger_http::{
    problem::{Code, Problem},
    request::{account_id, check_accept, check_no_query},
    storage::read_in_time,
};
use sqlx::PgPool;
use uuid::Uuid;

use super::AdminState;
use crate::paging::Paginator;

/// Owner of the lists of the whole service: no account has this id.
pub(crate) const NO_ACCOUNT: AccountId = AccountId::from_uuid(Uuid::nil());

/// Request with an admin key that may read.
pub(crate) struct AdminRequest {
    pub(super) admin: Arc<AdminState>,
    pub(super) uri: Uri,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<AdminState>> for AdminRequest {
    type Rejection = Problem;

    async fn from_request_parts(
        head: &mut Parts,
        admin: &Arc<AdminState>,
    ) -> Result<Self, Problem> {
        Ok(Self {
            admin: Arc::clone(admin),
            uri: std::mem::take(&mut head.uri),
            headers: std::mem::take(&mut head.headers),
        })
    }
}

impl AdminRequest {
    /// Returns the sessions on the event store.
    pub(super) fn log(&self) -> &PgPool {
        &self.admin.log
    }

    /// Checks that the client takes JSON.
    ///
    /// # Errors
    /// Returns `not_acceptable`.
    pub(super) fn check_accept(&self) -> Result<(), Problem> {
        check_accept(&self.headers)
    }

    /// Checks a request without parameters.
    ///
    /// # Errors
    /// Returns `invalid_parameter` or `not_acceptable`.
    pub(super) fn check_plain(&self) -> Result<(), Problem> {
        check_no_query(&self.uri)?;
        self.check_accept()
    }

    /// Returns the paginator of a list of the whole service.
    pub(super) fn list(&self, filters: String) -> Paginator<'static> {
        self.list_of(NO_ACCOUNT, filters)
    }

    /// Returns the paginator of a list of the account that the path names. A malformed id is answered later, when
    /// the existence is checked.
    pub(super) fn list_of_account(&self, filters: String) -> Paginator<'static> {
        let account_id = account_id(&self.uri);
        self.list_of(account_id.unwrap_or(NO_ACCOUNT), filters)
    }

    fn list_of(&self, account_id: AccountId, filters: String) -> Paginator<'static> {
        Paginator {
            scope: CursorScope {
                list: self.uri.path().to_owned(),
                filters,
                account_id,
            },
            // The listener has no public address: links to pages are relative to the one that the client knows.
            base_url: "",
        }
    }

    /// Reads the account that the path names.
    ///
    /// # Errors
    /// Returns `account_not_found` or `storage_unavailable`.
    pub(super) async fn account(&self) -> Result<ListedAccount, Problem> {
        read_account(self.log(), account_id(&self.uri)?).await
    }
}

/// Reads an account.
///
/// # Errors
/// Returns `account_not_found` or `storage_unavailable`.
pub(super) async fn read_account(
    log: &PgPool,
    account_id: AccountId,
) -> Result<ListedAccount, Problem> {
    let account = read_in_time(|| accounts::get(log, account_id)).await?;
    account.ok_or_else(Problem::account_not_found)
}

/// Returns the problem of an event that this release cannot read, of the subject with the given id.
pub(super) fn unreadable(subject: &str, error: &DecodeError) -> Problem {
    let error = error as &dyn std::error::Error;
    tracing::error!(
        subject,
        error,
        "cannot read an event; a later release wrote it"
    );
    Problem::new(
        Code::ReadModelBehind,
        "A later release of the service has written an event that this one cannot read; retry in a second.",
    )
    .retry_after(1)
}
