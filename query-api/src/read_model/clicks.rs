//! Statistics of clicks: series of a link or an account, from slots of 15 min and UTC days.
//!
//! Every statement runs in the transaction that also reads `complete_until`: one snapshot.

mod top;

use futures::TryStreamExt as _;
use linkledger_clicks::{
    buckets::Buckets,
    statistics::{ClickSeries, ClickStatistics, DamagedStatistics},
    tally::KindCount,
};
use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::{Date, OffsetDateTime};
use tokio::task::yield_now;

pub(crate) use self::top::{TopLinksQuery, TopValuesQuery};

/// Link or account whose clicks are read. All statistics of a link carry the id of the account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClickSubject {
    pub(crate) account_id: AccountId,
    /// `None` for all links of the account.
    pub(crate) link_id: Option<LinkId>,
}

/// Error of a read of statistics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatisticsError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Damaged(#[from] DamagedStatistics),
    /// A count below 0, against the checks of the tables.
    #[error("a stored count is negative")]
    Negative,
}

/// Query of statistics of clicks, answered within one snapshot.
pub(crate) trait StatisticsQuery: Sync {
    /// Result of the query.
    type Statistics: Send;

    /// Returns the account whose statistics are read.
    fn account_id(&self) -> AccountId;

    /// Reads the statistics.
    fn read(
        &self,
        session: &mut PgConnection,
    ) -> impl Future<Output = Result<Self::Statistics, StatisticsError>> + Send;
}

/// Buckets of a range with their statistics.
pub(crate) struct Series {
    pub(crate) buckets: Buckets,
    pub(crate) statistics: Vec<ClickStatistics>,
    pub(crate) totals: ClickStatistics,
}

/// Reads the instant before which every click is in the statistics.
pub(crate) async fn complete_until(
    session: &mut PgConnection,
) -> Result<OffsetDateTime, StatisticsError> {
    let until = sqlx::query_scalar!(r#"SELECT clicks.complete_until() AS "until!""#);
    Ok(until.fetch_one(session).await?)
}

/// Clicks of each bucket.
pub(crate) struct SeriesQuery {
    pub(crate) subject: ClickSubject,
    pub(crate) buckets: Buckets,
}

impl StatisticsQuery for SeriesQuery {
    type Statistics = Series;

    fn account_id(&self) -> AccountId {
        self.subject.account_id
    }

    async fn read(&self, session: &mut PgConnection) -> Result<Series, StatisticsError> {
        let mut series = ClickSeries::new(self.buckets.clone());
        self.add_slots(session, &mut series).await?;
        self.add_days(session, &mut series).await?;
        let (buckets, statistics, totals) = series.finish();
        Ok(Series {
            buckets,
            statistics,
            totals,
        })
    }
}

/// Clicks of a slot of 15 min.
struct ClicksOfSlot {
    slot_start: OffsetDateTime,
    clicks: i64,
    bots: i64,
}

/// Clicks of a UTC day, with the sketch of their visitors.
struct ClicksOfDay {
    day: Date,
    clicks: i64,
    bots: i64,
    visitors: Option<Vec<u8>>,
}

impl SeriesQuery {
    async fn add_slots(
        &self,
        session: &mut PgConnection,
        series: &mut ClickSeries,
    ) -> Result<(), StatisticsError> {
        let Some(slots) = self.buckets.slots() else {
            return Ok(());
        };
        let account_id = self.subject.account_id.uuid();
        let mut rows = match self.subject.link_id {
            Some(link_id) => sqlx::query_as!(
                ClicksOfSlot,
                "SELECT slot_start, clicks, bots FROM clicks.link_15min
         WHERE account_id = $1 AND link_id = $2 AND slot_start >= $3 AND slot_start < $4",
                account_id,
                link_id.uuid(),
                slots.start,
                slots.end
            )
            .fetch(session),
            None => sqlx::query_as!(
                ClicksOfSlot,
                r#"
        SELECT slot_start, sum(clicks)::bigint AS "clicks!", sum(bots)::bigint AS "bots!"
        FROM clicks.account_15min
        WHERE account_id = $1 AND slot_start >= $2 AND slot_start < $3
        GROUP BY slot_start
        "#,
                account_id,
                slots.start,
                slots.end
            )
            .fetch(session),
        };
        while let Some(row) = rows.try_next().await? {
            series.add_slot(row.slot_start, counted(row.clicks, row.bots)?);
        }
        Ok(())
    }

    /// Adds the days, those of an account of all partitions, day by day: the sketches of one day are united, one union
    /// at a time.
    async fn add_days(
        &self,
        session: &mut PgConnection,
        series: &mut ClickSeries,
    ) -> Result<(), StatisticsError> {
        let (account_id, days) = (self.subject.account_id.uuid(), self.buckets.days());
        let mut rows = match self.subject.link_id {
            Some(link_id) => sqlx::query_as!(
                ClicksOfDay,
                "SELECT day, clicks, bots, visitors FROM clicks.link_days
         WHERE account_id = $1 AND link_id = $2 AND day >= $3 AND day < $4
         ORDER BY day",
                account_id,
                link_id.uuid(),
                days.start,
                days.end
            )
            .fetch(session),
            None => sqlx::query_as!(
                ClicksOfDay,
                "SELECT day, clicks, bots, visitors FROM clicks.account_days
         WHERE account_id = $1 AND day >= $2 AND day < $3
         ORDER BY day",
                account_id,
                days.start,
                days.end
            )
            .fetch(session),
        };
        while let Some(row) = rows.try_next().await? {
            // A union of sketches takes long: requests for redirects come in between.
            yield_now().await;
            let counted = counted(row.clicks, row.bots)?;
            series.add_day(row.day, counted, row.visitors.as_deref())?;
        }
        Ok(())
    }
}

fn counted(clicks: i64, bots: i64) -> Result<KindCount, StatisticsError> {
    Ok(KindCount {
        clicks: unsigned(clicks)?,
        bots: unsigned(bots)?,
    })
}

fn unsigned(count: i64) -> Result<u64, StatisticsError> {
    u64::try_from(count).map_err(|_| StatisticsError::Negative)
}
