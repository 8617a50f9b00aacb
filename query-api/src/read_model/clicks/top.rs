//! The most frequent values of a dimension, and the most clicked links of an account.

use std::{collections::HashMap, ops::Range};

use futures::TryStreamExt as _;
use linkledger_core::{
    click::{
        dimension::{Dimension, OTHER_VALUES},
        figures::VisitorUnion,
    },
    id::{AccountId, LinkId},
};
use sqlx::PgConnection;
use time::Date;
use tokio::task::yield_now;
use uuid::Uuid;

use super::{ClickSubject, Counting, FigureQuery, FiguresError, unsigned};

/// The items with the most human clicks, most first; with equal numbers in the order of their keys.
pub(crate) struct Top<K> {
    pub(crate) items: Vec<TopItem<K>>,
    /// Human clicks that belong to no item.
    pub(crate) other: u64,
}

/// Value or link with its figures.
pub(crate) struct TopItem<K> {
    pub(crate) key: K,
    pub(crate) clicks: u64,
    /// Estimated visitors of each UTC day, added over days.
    pub(crate) visitors: u64,
}

impl<K> Top<K> {
    /// Returns the items of rows that are in order, each with the sum of all rows.
    fn new(rows: Vec<RankedRow<K>>) -> Result<Self, FiguresError> {
        let all = unsigned(rows.first().map_or(0, |row| row.all_clicks))?;
        let mut items = Vec::with_capacity(rows.len());
        for row in rows.into_iter().filter(|row| row.is_item) {
            items.push(TopItem {
                key: row.key,
                clicks: unsigned(row.clicks)?,
                visitors: 0,
            });
        }
        let shown: u64 = items.iter().map(|item| item.clicks).sum();
        Ok(Self {
            items,
            other: all.saturating_sub(shown),
        })
    }
}

/// Row of a ranking.
struct RankedRow<K> {
    key: K,
    clicks: i64,
    /// Sum of the clicks of all rows, beyond the limit too.
    all_clicks: i64,
    /// False for values that were not kept apart.
    is_item: bool,
}

/// The `limit` most frequent values of a dimension.
pub(crate) struct TopValuesQuery {
    pub(crate) subject: ClickSubject,
    pub(crate) dimension: Dimension,
    pub(crate) days: Range<Date>,
    pub(crate) limit: i64,
}

impl FigureQuery for TopValuesQuery {
    type Figures = Top<String>;
    const COUNTING: Counting = Counting::Values;

    async fn read(&self, session: &mut PgConnection) -> Result<Top<String>, FiguresError> {
        let range = ValueRange {
            account_id: self.subject.account_id,
            dimension: self.dimension.number(),
            days: &self.days,
        };
        let link_id = self.subject.link_id;
        let rows = match link_id {
            Some(link_id) => range.of_link(&mut *session, link_id, self.limit).await?,
            None => range.of_account(&mut *session, self.limit).await?,
        };
        let mut top = Top::new(rows)?;
        let values: Vec<String> = top.items.iter().map(|item| item.key.clone()).collect();
        let visitors = match link_id {
            Some(link_id) => range.visitors_of_link(session, link_id, &values).await?,
            None => range.visitors_of_account(session, &values).await?,
        };
        for item in &mut top.items {
            item.visitors = visitors.get(&item.key).copied().unwrap_or_default();
        }
        Ok(top)
    }
}

/// Values of one dimension in a range of days.
struct ValueRange<'a> {
    account_id: AccountId,
    dimension: i16,
    days: &'a Range<Date>,
}

impl ValueRange<'_> {
    async fn of_link(
        &self,
        session: &mut PgConnection,
        link_id: LinkId,
        limit: i64,
    ) -> Result<Vec<RankedRow<String>>, FiguresError> {
        // Values that were not kept apart are last, and cost no place.
        let rows = sqlx::query_as!(
            RankedRow,
            r#"
            SELECT value AS "key!", sum(clicks)::bigint AS "clicks!",
                   sum(sum(clicks)) OVER ()::bigint AS "all_clicks!", value <> $6 AS "is_item!"
            FROM clicks.link_values
            WHERE account_id = $1 AND link_id = $2 AND day >= $3 AND day < $4 AND dimension = $5
            GROUP BY value
            ORDER BY value = $6, sum(clicks) DESC, value
            LIMIT $7
            "#,
            self.account_id.uuid(),
            link_id.uuid(),
            self.days.start,
            self.days.end,
            self.dimension,
            OTHER_VALUES,
            limit
        );
        Ok(rows.fetch_all(session).await?)
    }

    async fn of_account(
        &self,
        session: &mut PgConnection,
        limit: i64,
    ) -> Result<Vec<RankedRow<String>>, FiguresError> {
        let rows = sqlx::query_as!(
            RankedRow,
            r#"
            SELECT value AS "key!", sum(clicks)::bigint AS "clicks!",
                   sum(sum(clicks)) OVER ()::bigint AS "all_clicks!", value <> $5 AS "is_item!"
            FROM clicks.account_values
            WHERE account_id = $1 AND day >= $2 AND day < $3 AND dimension = $4
            GROUP BY value
            ORDER BY value = $5, sum(clicks) DESC, value
            LIMIT $6
            "#,
            self.account_id.uuid(),
            self.days.start,
            self.days.end,
            self.dimension,
            OTHER_VALUES,
            limit
        );
        Ok(rows.fetch_all(session).await?)
    }

    async fn visitors_of_link(
        &self,
        session: &mut PgConnection,
        link_id: LinkId,
        values: &[String],
    ) -> Result<HashMap<String, u64>, FiguresError> {
        let mut rows = sqlx::query!(
            r#"
            SELECT day, value, visitors AS "visitors!"
            FROM clicks.link_values
            WHERE account_id = $1 AND link_id = $2 AND day >= $3 AND day < $4 AND dimension = $5
              AND value = ANY ($6) AND visitors IS NOT NULL
            ORDER BY day, value
            "#,
            self.account_id.uuid(),
            link_id.uuid(),
            self.days.start,
            self.days.end,
            self.dimension,
            values
        )
        .fetch(session);
        let mut visitors = ValueVisitors::default();
        while let Some(row) = rows.try_next().await? {
            // A union of sketches takes long: requests for redirects come in between.
            yield_now().await;
            visitors.add(row.day, row.value, &row.visitors)?;
        }
        Ok(visitors.finish())
    }

    async fn visitors_of_account(
        &self,
        session: &mut PgConnection,
        values: &[String],
    ) -> Result<HashMap<String, u64>, FiguresError> {
        let mut rows = sqlx::query!(
            r#"
            SELECT day, value, visitors AS "visitors!"
            FROM clicks.account_values
            WHERE account_id = $1 AND day >= $2 AND day < $3 AND dimension = $4
              AND value = ANY ($5) AND visitors IS NOT NULL
            ORDER BY day, value
            "#,
            self.account_id.uuid(),
            self.days.start,
            self.days.end,
            self.dimension,
            values
        )
        .fetch(session);
        let mut visitors = ValueVisitors::default();
        while let Some(row) = rows.try_next().await? {
            // A union of sketches takes long: requests for redirects come in between.
            yield_now().await;
            visitors.add(row.day, row.value, &row.visitors)?;
        }
        Ok(visitors.finish())
    }
}

/// Visitors by value, from rows in the order of day and value.
#[derive(Default)]
struct ValueVisitors {
    union: VisitorUnion<(Date, String)>,
    by_value: HashMap<String, u64>,
}

impl ValueVisitors {
    fn add(&mut self, day: Date, value: String, sketch: &[u8]) -> Result<(), FiguresError> {
        let finished = self.union.add((day, value), day, sketch)?;
        add_estimate(&mut self.by_value, finished);
        Ok(())
    }

    fn finish(mut self) -> HashMap<String, u64> {
        add_estimate(&mut self.by_value, self.union.finish());
        self.by_value
    }
}

fn add_estimate(by_value: &mut HashMap<String, u64>, estimate: Option<((Date, String), u64)>) {
    if let Some(((_, value), estimate)) = estimate {
        *by_value.entry(value).or_default() += estimate;
    }
}

/// The `limit` most clicked links of an account.
pub(crate) struct TopLinksQuery {
    pub(crate) account_id: AccountId,
    pub(crate) days: Range<Date>,
    pub(crate) limit: i64,
}

impl FigureQuery for TopLinksQuery {
    type Figures = Top<LinkId>;
    const COUNTING: Counting = Counting::Totals;

    async fn read(&self, session: &mut PgConnection) -> Result<Top<LinkId>, FiguresError> {
        let mut top = Top::new(self.rows(&mut *session).await?)?;
        let link_ids: Vec<Uuid> = top.items.iter().map(|item| item.key.uuid()).collect();
        let visitors = self.visitors(session, &link_ids).await?;
        for item in &mut top.items {
            item.visitors = visitors.get(&item.key.uuid()).copied().unwrap_or_default();
        }
        Ok(top)
    }
}

impl TopLinksQuery {
    async fn rows(&self, session: &mut PgConnection) -> sqlx::Result<Vec<RankedRow<LinkId>>> {
        let rows = sqlx::query_as!(
            RankedRow,
            r#"
        SELECT link_id AS "key!: LinkId", sum(clicks)::bigint AS "clicks!",
               sum(sum(clicks)) OVER ()::bigint AS "all_clicks!", true AS "is_item!"
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
        );
        rows.fetch_all(session).await
    }

    /// Reads the visitors of the links. A link has one row for each day, so that nothing is united.
    async fn visitors(
        &self,
        session: &mut PgConnection,
        link_ids: &[Uuid],
    ) -> Result<HashMap<Uuid, u64>, FiguresError> {
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
            // A union of sketches takes long: requests for redirects come in between.
            yield_now().await;
            let mut union = VisitorUnion::default();
            union.add((), row.day, &row.visitors)?;
            let estimate = union.finish().map_or(0, |((), estimate)| estimate);
            *visitors.entry(row.link_id).or_default() += estimate;
        }
        Ok(visitors)
    }
}
