//! Reads of figures of clicks, on sessions of their own.
//!
//! Figures and `complete_until` are read in one snapshot. A read that takes too long ends with a problem that says
//! so, and never delays other reads.

mod account_shares;

use std::time::Duration;

use linkledger_core::{
    event_store::{
        errors::sqlstate,
        time_limit::{ANSWER_TIME_MAX, read_on_live_session},
    },
    problem::{Code, Problem},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout, timeout_at};

use self::account_shares::AccountShares;
use crate::read_model::{
    clicks::{self, FigureQuery, FiguresError},
    storage_unavailable,
};

/// Begin of a transaction whose statements read one snapshot.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// SQLSTATE of a statement that was cancelled, mostly by the statement timeout.
const QUERY_CANCELED: &str = "57014";

/// Longest wait for other figures of the account.
const SHARE_TIME_MAX: Duration = Duration::from_secs(4);

/// Figures with the instant before which every click is in them.
pub(crate) struct CompleteFigures<T> {
    pub(crate) figures: T,
    pub(crate) complete_until: OffsetDateTime,
}

/// Sessions that read figures, from the primary.
pub(crate) struct FigureReads {
    pool: PgPool,
    shares: AccountShares,
}

impl FigureReads {
    /// Returns reads on the sessions of the pool. An account uses half of the sessions at most.
    pub(crate) fn new(pool: PgPool) -> Self {
        let sessions = pool.options().get_max_connections();
        Self {
            pool,
            shares: AccountShares::new(sessions as usize / 2),
        }
    }

    /// Reads the figures that a query asks for.
    ///
    /// # Errors
    /// Returns `overloaded` if the figures take too long or other figures of the account are being read,
    /// `storage_unavailable` if the database fails, and `internal_error` if stored figures are damaged.
    pub(crate) async fn read<Q: FigureQuery>(
        &self,
        query: &Q,
    ) -> Result<CompleteFigures<Q::Figures>, Problem> {
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        let acquiring = self.shares.acquire(query.account_id());
        let Ok(_share) = timeout(SHARE_TIME_MAX, acquiring).await else {
            return Err(share_in_use());
        };
        // A cancelled statement would be cancelled again: the read is not retried.
        let reading = read_on_live_session(async || match self.read_once(query).await {
            Err(FiguresError::Database(error)) if !is_cancelled(&error) => Err(error),
            read => Ok(read),
        });
        let Ok(read) = timeout_at(deadline, reading).await else {
            return Err(too_slow("no answer"));
        };
        read.map_err(FiguresError::from)
            .flatten()
            .map_err(|error| problem_of(&error))
    }

    async fn read_once<Q: FigureQuery>(
        &self,
        query: &Q,
    ) -> Result<CompleteFigures<Q::Figures>, FiguresError> {
        let mut snapshot = self.pool.begin_with(BEGIN).await?;
        let complete_until = clicks::complete_until(&mut snapshot, Q::COUNTING).await?;
        let figures = query.read(&mut snapshot).await?;
        snapshot.commit().await?;
        Ok(CompleteFigures {
            figures,
            complete_until,
        })
    }
}

fn is_cancelled(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|state| state == QUERY_CANCELED)
}

fn problem_of(error: &FiguresError) -> Problem {
    match error {
        FiguresError::Database(sqlx::Error::PoolTimedOut) => too_slow("no free session"),
        FiguresError::Database(error) if is_cancelled(error) => too_slow("statement cancelled"),
        FiguresError::Database(error) => storage_unavailable(error),
        FiguresError::Damaged(_) | FiguresError::Negative => {
            let error = error as &dyn std::error::Error;
            tracing::error!(error, "cannot read figures of clicks");
            Problem::internal()
        }
    }
}

fn share_in_use() -> Problem {
    Problem::new(
        Code::Overloaded,
        "Other figures of this account are being read: retry later, with fewer requests at a time.",
    )
    .retry_after(1)
}

fn too_slow(reason: &str) -> Problem {
    tracing::warn!(reason, "figures of clicks took too long");
    Problem::new(
        Code::Overloaded,
        "The figures took too long to read: choose a shorter range, or retry later.",
    )
    .retry_after(1)
}
