//! Figures of clicks: series of a link or an account, from quarters of hours and UTC days.
//!
//! Every statement runs in the transaction that also reads `complete_until`: one snapshot.

mod top;

use futures::TryStreamExt as _;
use linkledger_clicks::{
    buckets::Buckets,
    figures::{ClickFigures, ClickSeries, DamagedFigures},
    tally::KindCount,
};
use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::{Date, OffsetDateTime};
use tokio::task::yield_now;

pub(crate) use self::top::{TopLinksQuery, TopValuesQuery};

/// Link or account whose clicks are read. All figures of a link carry the id of the account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClickSubject {
    pub(crate) account_id: AccountId,
    /// `None` for all links of the account.
    pub(crate) link_id: Option<LinkId>,
}

/// Error of a read of figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FiguresError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Damaged(#[from] DamagedFigures),
    /// A figure below 0, against the checks of the tables.
    #[error("a stored figure is negative")]
    Negative,
}

/// Question about clicks, answered within one snapshot.
pub(crate) trait FigureQuery: Sync {
    /// Figures that answer the question.
    type Figures: Send;

    /// Returns the account whose figures are read.
    fn account_id(&self) -> AccountId;

    /// Reads the figures.
    fn read(
        &self,
        session: &mut PgConnection,
    ) -> impl Future<Output = Result<Self::Figures, FiguresError>> + Send;
}

/// Buckets of a range with their figures.
pub(crate) struct Series {
    pub(crate) buckets: Buckets,
    pub(crate) figures: Vec<ClickFigures>,
    pub(crate) totals: ClickFigures,
}

/// Reads the instant before which every click is in the figures.
pub(crate) async fn complete_until(
    session: &mut PgConnection,
) -> Result<OffsetDateTime, FiguresError> {
    let until = sqlx::query_scalar!(r#"SELECT clicks.complete_until() AS "until!""#);
    Ok(until.fetch_one(session).await?)
}

/// Clicks of each bucket.
pub(crate) struct SeriesQuery {
    pub(crate) subject: ClickSubject,
    pub(crate) buckets: Buckets,
}

impl FigureQuery for SeriesQuery {
    type Figures = Series;

    fn account_id(&self) -> AccountId {
        self.subject.account_id
    }

    async fn read(&self, session: &mut PgConnection) -> Result<Series, FiguresError> {
        let mut series = ClickSeries::new(self.buckets.clone());
        self.add_quarters(session, &mut series).await?;
        self.add_days(session, &mut series).await?;
        let (buckets, figures, totals) = series.finish();
        Ok(Series {
            buckets,
            figures,
            totals,
        })
    }
}

/// Clicks of a quarter of an hour.
struct ClicksOfQuarter {
    quarter: OffsetDateTime,
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
    async fn add_quarters(
        &self,
        session: &mut PgConnection,
        series: &mut ClickSeries,
    ) -> Result<(), FiguresError> {
        let Some(quarters) = self.buckets.quarters() else {
            return Ok(());
        };
        let account_id = self.subject.account_id.uuid();
        let mut rows = match self.subject.link_id {
            Some(link_id) => sqlx::query_as!(
                ClicksOfQuarter,
                "SELECT quarter, clicks, bots FROM clicks.link_quarters
         WHERE account_id = $1 AND link_id = $2 AND quarter >= $3 AND quarter < $4",
                account_id,
                link_id.uuid(),
                quarters.start,
                quarters.end
            )
            .fetch(session),
            None => sqlx::query_as!(
                ClicksOfQuarter,
                r#"
        SELECT quarter, sum(clicks)::bigint AS "clicks!", sum(bots)::bigint AS "bots!"
        FROM clicks.account_quarters
        WHERE account_id = $1 AND quarter >= $2 AND quarter < $3
        GROUP BY quarter
        "#,
                account_id,
                quarters.start,
                quarters.end
            )
            .fetch(session),
        };
        while let Some(row) = rows.try_next().await? {
            series.add_quarter(row.quarter, counted(row.clicks, row.bots)?);
        }
        Ok(())
    }

    /// Adds the days, those of an account of all partitions, day by day: the sketches of one day are united, one union
    /// at a time.
    async fn add_days(
        &self,
        session: &mut PgConnection,
        series: &mut ClickSeries,
    ) -> Result<(), FiguresError> {
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

fn counted(clicks: i64, bots: i64) -> Result<KindCount, FiguresError> {
    Ok(KindCount {
        clicks: unsigned(clicks)?,
        bots: unsigned(bots)?,
    })
}

fn unsigned(figure: i64) -> Result<u64, FiguresError> {
    u64::try_from(figure).map_err(|_| FiguresError::Negative)
}
