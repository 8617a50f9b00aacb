//! The request of a read of webhooks, on either API, and the checks that all of them share.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, Uri, request::Parts},
};
use linkledger_core::{cursor::CursorScope, id::AccountId};
use linkledger_event_store::webhooks::rows::{self, StoredWebhook};
use linkledger_http::{
    authentication::Caller,
    problem::Problem,
    request::{check_accept, check_no_query, webhook_id},
    storage::read_in_time,
};
use sqlx::PgPool;
use uuid::Uuid;

use super::{OperatorsWebhooks, OwnersWebhooks};
use crate::{consistency::position_of_consistency_token, paging::Paginator};

/// Owner of the lists of operators: no account has this id.
const NO_ACCOUNT: AccountId = AccountId::from_uuid(Uuid::nil());

/// Request of an owner or of an operator.
pub(crate) struct WebhookRead {
    reader: Reader,
    pub(super) uri: Uri,
    headers: HeaderMap,
}

/// Reader, with the sessions for the reads.
enum Reader {
    Owner(Arc<OwnersWebhooks>, AccountId),
    Operator(Arc<OperatorsWebhooks>),
}

impl FromRequestParts<Arc<OwnersWebhooks>> for WebhookRead {
    type Rejection = Problem;

    async fn from_request_parts(
        head: &mut Parts,
        state: &Arc<OwnersWebhooks>,
    ) -> Result<Self, Problem> {
        let caller = head.extensions.get::<Caller>();
        let account_id = caller.ok_or_else(Problem::internal)?.account_id;
        Ok(Self::of(head, Reader::Owner(Arc::clone(state), account_id)))
    }
}

impl FromRequestParts<Arc<OperatorsWebhooks>> for WebhookRead {
    type Rejection = Problem;

    async fn from_request_parts(
        head: &mut Parts,
        state: &Arc<OperatorsWebhooks>,
    ) -> Result<Self, Problem> {
        Ok(Self::of(head, Reader::Operator(Arc::clone(state))))
    }
}

impl WebhookRead {
    fn of(head: &mut Parts, reader: Reader) -> Self {
        Self {
            reader,
            uri: std::mem::take(&mut head.uri),
            headers: std::mem::take(&mut head.headers),
        }
    }

    /// Checks that the client takes JSON, and that its token, if there is one, is that of the account.
    ///
    /// # Errors
    /// Returns `not_acceptable` or `invalid_header`.
    pub(super) fn check_headers(&self) -> Result<(), Problem> {
        check_accept(&self.headers)?;
        if let Reader::Owner(owners, account_id) = &self.reader {
            // Every committed write is in the event store: a token needs no wait.
            let log_epoch = owners.watcher.log_epoch();
            position_of_consistency_token(&self.headers, *account_id, log_epoch)?;
        }
        Ok(())
    }

    /// Checks a request without parameters.
    ///
    /// # Errors
    /// Returns `invalid_parameter`, `not_acceptable` or `invalid_header`.
    pub(super) fn check_plain(&self) -> Result<(), Problem> {
        check_no_query(&self.uri)?;
        self.check_headers()
    }

    /// Returns the paginator of a list of the reader.
    pub(super) fn list(&self, filters: String) -> Paginator<'_> {
        let (account_id, base_url) = match &self.reader {
            Reader::Owner(owners, account_id) => (*account_id, &*owners.base_url),
            // The listener has no public address: links to pages are relative.
            Reader::Operator(_) => (NO_ACCOUNT, ""),
        };
        Paginator {
            scope: CursorScope {
                list: self.uri.path().to_owned(),
                filters,
                account_id,
            },
            base_url,
        }
    }

    /// Returns the sessions, for the statements of [`Self::read`].
    pub(super) fn pool(&self) -> &PgPool {
        match &self.reader {
            Reader::Owner(owners, _) => owners.reads.pool(),
            Reader::Operator(operators) => &operators.log,
        }
    }

    /// Runs a read.
    ///
    /// # Errors
    /// Returns `overloaded` if other reads of the account use up its share of the sessions, and `storage_unavailable`
    /// if the database fails.
    pub(super) async fn read<T, F: Future<Output = sqlx::Result<T>>>(
        &self,
        read: impl FnMut() -> F,
    ) -> Result<T, Problem> {
        match &self.reader {
            Reader::Owner(owners, account_id) => owners.reads.read(*account_id, read).await,
            Reader::Operator(_) => read_in_time(read).await,
        }
    }

    /// Reads all webhooks of the reader.
    ///
    /// # Errors
    /// Returns the problems of [`Self::read`].
    pub(super) async fn webhooks(&self) -> Result<Vec<StoredWebhook>, Problem> {
        let pool = self.pool();
        match &self.reader {
            Reader::Owner(_, account_id) => self.read(|| rows::list(pool, *account_id)).await,
            Reader::Operator(_) => self.read(|| rows::list_of_operators(pool)).await,
        }
    }

    /// Reads the webhook that the path names.
    ///
    /// # Errors
    /// Returns `webhook_not_found` if the reader has no such webhook, and the problems of [`Self::read`].
    pub(super) async fn webhook(&self) -> Result<StoredWebhook, Problem> {
        let (pool, webhook_id) = (self.pool(), webhook_id(&self.uri)?);
        let stored = self.read(|| rows::get(pool, webhook_id)).await?;
        let stored = stored.filter(|stored| self.may_see(stored));
        stored.ok_or_else(Problem::webhook_not_found)
    }

    /// Returns true if the webhook belongs to the reader. An account that owns the operators' webhooks too does not see
    /// them.
    fn may_see(&self, stored: &StoredWebhook) -> bool {
        let webhook = &stored.webhook;
        match &self.reader {
            Reader::Owner(_, account_id) => {
                webhook.account_id == *account_id && !webhook.all_accounts
            }
            Reader::Operator(_) => webhook.all_accounts,
        }
    }
}
