//! Reads that can take long, on sessions of their own.
//!
//! A read that takes too long ends with a problem that says so, and never delays reads on other sessions. The reads
//! of one account leave half of the sessions to others.

use std::{future::Future, sync::Arc, time::Duration};

use linkledger_core::id::AccountId;
use linkledger_event_store::{
    errors::sqlstate,
    time_limit::{READ_TIME_MAX, read_on_live_session},
};
use linkledger_http::{
    per_account_limit::{PerAccountLimit, overloaded},
    problem::Problem,
};
use sqlx::PgPool;
use tokio::time::{Instant, timeout_at};

use crate::read_model::storage_unavailable;

/// Longest wait for other costly reads of the account; the rest of [`READ_TIME_MAX`] is left to the read itself.
pub(crate) const SHARE_TIME_MAX: Duration = Duration::from_secs(2);

/// SQLSTATE of a statement that was cancelled, mostly by the statement timeout.
const QUERY_CANCELED: &str = "57014";

/// Advice in the problems of one kind of reads.
pub(crate) struct SlowReadAdvice {
    /// Detail of the problem if other reads of the account use up its share of the sessions.
    pub(crate) share_in_use: &'static str,
    /// Detail of the problem if the read takes too long.
    pub(crate) too_slow: &'static str,
}

/// Sessions of one kind of reads.
pub(crate) struct SlowReads {
    pool: PgPool,
    shares: Arc<PerAccountLimit>,
    advice: SlowReadAdvice,
}

impl SlowReads {
    /// Returns reads on the sessions of the pool. An account uses half of the sessions at most.
    pub(crate) fn new(pool: PgPool, advice: SlowReadAdvice) -> Self {
        let sessions = pool.options().get_max_connections() as usize;
        Self {
            pool,
            shares: Arc::new(PerAccountLimit::new(sessions / 2, sessions)),
            advice,
        }
    }

    /// Returns reads of another kind on the same sessions: an account has one share for both.
    pub(crate) fn with_advice(&self, advice: SlowReadAdvice) -> Self {
        Self {
            pool: self.pool.clone(),
            shares: Arc::clone(&self.shares),
            advice,
        }
    }

    /// Returns the sessions, for the statements of [`Self::read`].
    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs a read of the account's rows, and retries the read if its session has ended.
    ///
    /// # Errors
    /// Returns `overloaded` if the read takes too long or other reads of the account use up its share of the
    /// sessions, and `storage_unavailable` if the database fails.
    pub(crate) async fn read<T, F: Future<Output = sqlx::Result<T>>>(
        &self,
        account_id: AccountId,
        mut read: impl FnMut() -> F,
    ) -> Result<T, Problem> {
        let deadline = Instant::now() + READ_TIME_MAX;
        let acquiring =
            self.shares
                .acquire_in_time(account_id, SHARE_TIME_MAX, self.advice.share_in_use);
        let _share = acquiring.await?;
        // A cancelled statement would be cancelled again: the read is not retried.
        let reading = read_on_live_session(|| {
            let reading = read();
            async {
                match reading.await {
                    Err(error) if is_cancelled(&error) => Ok(Err(error)),
                    read => read.map(Ok),
                }
            }
        });
        let Ok(read) = timeout_at(deadline, reading).await else {
            return Err(self.too_slow("no answer"));
        };
        read.flatten().map_err(|error| {
            if matches!(error, sqlx::Error::PoolTimedOut) {
                self.too_slow("no free session")
            } else if is_cancelled(&error) {
                self.too_slow("statement cancelled")
            } else {
                storage_unavailable(&error)
            }
        })
    }

    fn too_slow(&self, reason: &str) -> Problem {
        let detail = self.advice.too_slow;
        tracing::warn!(reason, detail, "a read took too long");
        overloaded(detail)
    }
}

fn is_cancelled(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|state| state == QUERY_CANCELED)
}
