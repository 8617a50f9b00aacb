//! The most frequent values of a dimension, and the most clicked links of an account.

use std::{collections::HashMap, ops::Range};

use futures::TryStreamExt as _;
use linkledger_clicks::{
    Dimension,
    statistics::stored_sketch,
    value_statistics::{Top, TopItem, ValueStatistics},
};
use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::Date;
use tokio::task::yield_now;
use uuid::Uuid;

use super::{ClickSubject, StatisticsError, StatisticsQuery, unsigned};

/// The `limit` most frequent values of a dimension.
pub(crate) struct TopValuesQuery {
    pub(crate) subject: ClickSubject,
    pub(crate) dimension: Dimension,
    pub(crate) days: Range<Date>,
    pub(crate) limit: usize,
}

impl StatisticsQuery for TopValuesQuery {
    type Statistics = Top<String>;

    fn account_id(&self) -> AccountId {
        self.subject.account_id
    }

    async fn read(&self, session: &mut PgConnection) -> Result<Top<String>, StatisticsError> {
        let account_id = self.subject.account_id.uuid();
        let mut rows = match self.subject.link_id {
            Some(link_id) => sqlx::query_as!(
                CountsOfDay,
                r#"
            SELECT day, CASE $5 WHEN 'country' THEN country WHEN 'referrer_host' THEN referrer_host
                                WHEN 'browser' THEN browser WHEN 'os' THEN os
                                WHEN 'device' THEN device END AS "counts!"
            FROM clicks.link_values
            WHERE account_id = $1 AND link_id = $2 AND day >= $3 AND day < $4
            ORDER BY day
            "#,
                account_id,
                link_id.uuid(),
                self.days.start,
                self.days.end,
                self.dimension.name()
            )
            .fetch(session),
            None => sqlx::query_as!(
                CountsOfDay,
                r#"
            SELECT day, CASE $4 WHEN 'country' THEN country WHEN 'referrer_host' THEN referrer_host
                                WHEN 'browser' THEN browser WHEN 'os' THEN os
                                WHEN 'device' THEN device END AS "counts!"
            FROM clicks.account_values
            WHERE account_id = $1 AND day >= $2 AND day < $3
            ORDER BY day
            "#,
                account_id,
                self.days.start,
                self.days.end,
                self.dimension.name()
            )
            .fetch(session),
        };
        let mut statistics = ValueStatistics::default();
        while let Some(row) = rows.try_next().await? {
            // Unions of sketches take long: requests for redirects come in between.
            yield_now().await;
            statistics.add(row.day, &row.counts)?;
        }
        Ok(statistics.top(self.limit))
    }
}

/// Stored counts of a dimension on a day.
struct CountsOfDay {
    day: Date,
    counts: Vec<u8>,
}

/// The `limit` most clicked links of an account.
pub(crate) struct TopLinksQuery {
    pub(crate) account_id: AccountId,
    pub(crate) days: Range<Date>,
    pub(crate) limit: i64,
}

impl StatisticsQuery for TopLinksQuery {
    type Statistics = Top<LinkId>;

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    async fn read(&self, session: &mut PgConnection) -> Result<Top<LinkId>, StatisticsError> {
        let rows = sqlx::query!(
            r#"
        SELECT link_id AS "link_id!", sum(clicks)::bigint AS "clicks!",
               sum(sum(clicks)) OVER ()::bigint AS "all_clicks!"
        FROM clicks.link_days
        WHERE account_id = $1 AND day >= $2 AND day < $3
        GROUP BY link_id
        HAVING sum(clicks) > 0
        ORDER BY sum(clicks) DESC, link_id
        LIMIT $4
        "#,
            self.account_id.uuid(),
            self.days.start,
            self.days.end,
            self.limit
        )
        .fetch_all(&mut *session)
        .await?;
        let link_ids: Vec<Uuid> = rows.iter().map(|row| row.link_id).collect();
        let visitors = self.visitors(session, &link_ids).await?;
        // The sum of the clicks of all links, beyond the limit too.
        let mut other = unsigned(rows.first().map_or(0, |row| row.all_clicks))?;
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            let clicks = unsigned(row.clicks)?;
            other = other.saturating_sub(clicks);
            let estimate = visitors.get(&row.link_id);
            items.push(TopItem {
                key: LinkId::from_uuid(row.link_id),
                clicks,
                visitors: estimate.copied().unwrap_or_default(),
            });
        }
        Ok(Top { items, other })
    }
}

impl TopLinksQuery {
    /// Reads the visitors of the links. A link has one row for each day, so that nothing is united.
    async fn visitors(
        &self,
        session: &mut PgConnection,
        link_ids: &[Uuid],
    ) -> Result<HashMap<Uuid, u64>, StatisticsError> {
        let mut rows = sqlx::query!(
            r#"
            SELECT link_id, day, visitors AS "visitors!"
            FROM clicks.link_days
            WHERE account_id = $1 AND link_id = ANY ($2) AND day >= $3 AND day < $4
              AND visitors IS NOT NULL
            "#,
            self.account_id.uuid(),
            link_ids,
            self.days.start,
            self.days.end
        )
        .fetch(session);
        let mut visitors: HashMap<Uuid, u64> = HashMap::new();
        while let Some(row) = rows.try_next().await? {
            // Many sketches take long: other tasks, such as redirects, run in between.
            yield_now().await;
            let sketch = stored_sketch(row.day, &row.visitors)?;
            *visitors.entry(row.link_id).or_default() += sketch.estimate();
        }
        Ok(visitors)
    }
}
