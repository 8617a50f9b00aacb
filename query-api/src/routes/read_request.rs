//! The request of a read, and the checks that most reads share.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, Uri, request::Parts},
};
use linkledger_core::{cursor::CursorScope, id::AccountId};
use linkledger_http::{
    authentication::Caller, per_account_limit::AccountShare, problem::Problem,
    request::check_accept,
};

use super::ApiState;
use crate::{
    consistency::position_of_consistency_token, paging::Paginator, read_model::LogPosition,
    slow_reads::SHARE_TIME_MAX,
};

/// Request of an authenticated caller.
pub(crate) struct ReadRequest {
    pub(super) api: Arc<ApiState>,
    pub(super) account_id: AccountId,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl FromRequestParts<Arc<ApiState>> for ReadRequest {
    type Rejection = Problem;

    async fn from_request_parts(head: &mut Parts, api: &Arc<ApiState>) -> Result<Self, Problem> {
        let caller = head.extensions.get::<Caller>();
        Ok(Self {
            api: Arc::clone(api),
            account_id: caller.ok_or_else(Problem::internal)?.account_id,
            uri: std::mem::take(&mut head.uri),
            headers: std::mem::take(&mut head.headers),
        })
    }
}

impl ReadRequest {
    /// Returns the paginator of a list of the account.
    pub(super) fn list(&self, path: &str, filters: String) -> Paginator<'_> {
        Paginator {
            scope: CursorScope {
                list: path.to_owned(),
                filters,
                account_id: self.account_id,
            },
            base_url: &self.api.base_url,
        }
    }

    /// Waits for the account's share of the pages that look at many rows.
    ///
    /// # Errors
    /// Returns `overloaded` if other such pages of the account are being read for too long.
    pub(super) async fn share_of_costly_pages(&self) -> Result<AccountShare, Problem> {
        let detail = "Other tags or searches of this account are being read: retry later, with fewer requests at a \
                      time.";
        let pages = &self.api.costly_pages;
        pages
            .acquire_in_time(self.account_id, SHARE_TIME_MAX, detail)
            .await
    }

    /// Returns the position that the caller's token names.
    ///
    /// # Errors
    /// Returns `invalid_header`.
    pub(super) fn position(&self) -> Result<LogPosition, Problem> {
        let log_epoch = self.api.watcher.log_epoch();
        position_of_consistency_token(&self.headers, self.account_id, log_epoch)
    }

    /// Returns the position that the caller's token names, for an answer as JSON.
    ///
    /// # Errors
    /// Returns `not_acceptable` or `invalid_header`.
    pub(super) fn position_for_json(&self) -> Result<LogPosition, Problem> {
        check_accept(&self.headers)?;
        self.position()
    }
}
