//! Reads of statistics of clicks: statistics and `complete_until` are read in one snapshot.

use linkledger_event_store::transaction::PoolTransaction;
use linkledger_http::problem::Problem;
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::{
    read_model::clicks::{self, StatisticsError, StatisticsQuery},
    slow_reads::{SlowReadAdvice, SlowReads},
};

/// Begin of a transaction whose statements read one snapshot.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

const ADVICE: SlowReadAdvice = SlowReadAdvice {
    share_in_use: "Other statistics of this account are being read: retry later, with fewer requests at a time.",
    too_slow: "The statistics took too long to read: choose a shorter range, or retry later.",
};

/// Statistics with the instant before which every click is in them.
pub(crate) struct CompleteStatistics<T> {
    pub(crate) statistics: T,
    pub(crate) complete_until: OffsetDateTime,
}

/// Sessions that read statistics, from the primary.
pub(crate) struct StatisticsReads(SlowReads);

impl StatisticsReads {
    /// Returns reads on the sessions of the pool.
    pub(crate) fn new(pool: PgPool) -> Self {
        Self(SlowReads::new(pool, ADVICE))
    }

    /// Reads the statistics that a query asks for.
    ///
    /// # Errors
    /// Returns the problems of [`SlowReads::read`], and `internal_error` if stored statistics are damaged.
    pub(crate) async fn read<Q: StatisticsQuery>(
        &self,
        query: &Q,
    ) -> Result<CompleteStatistics<Q::Statistics>, Problem> {
        let reading = self.0.read(query.account_id(), async || {
            match self.read_once(query).await {
                Err(StatisticsError::Database(error)) => Err(error),
                read => Ok(read),
            }
        });
        reading.await?.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "cannot read statistics of clicks");
            Problem::internal()
        })
    }

    async fn read_once<Q: StatisticsQuery>(
        &self,
        query: &Q,
    ) -> Result<CompleteStatistics<Q::Statistics>, StatisticsError> {
        let mut snapshot = PoolTransaction::begin_with(self.0.pool(), BEGIN).await?;
        let complete_until = clicks::complete_until(&mut snapshot).await?;
        let statistics = query.read(&mut snapshot).await?;
        snapshot.commit().await?;
        Ok(CompleteStatistics {
            statistics,
            complete_until,
        })
    }
}
