//! The most frequent values of a dimension, and the most clicked links of an account.

use std::{collections::HashMap, ops::Range};

use futures::{TryStreamExt as _, stream::BoxStream};
use linkledger_core::{
    click::{
        Dimension,
        figures::stored_sketch,
        value_figures::{Top, TopItem, ValueFigures},
    },
    id::{AccountId, LinkId},
};
use sqlx::PgConnection;
use time::Date;
use tokio::task::yield_now;
use uuid::Uuid;

use super::{ClickSubject, FigureQuery, FiguresError, unsigned};

/// The `limit` most frequent values of a dimension.
pub(crate) struct TopValuesQuery {
    pub(crate) subject: ClickSubject,
    pub(crate) dimension: Dimension,
    pub(crate) days: Range<Date>,
    pub(crate) limit: usize,
}

impl FigureQuery for TopValuesQuery {
    type Figures = Top<String>;

    fn account_id(&self) -> AccountId {
        self.subject.account_id
    }

    async fn read(&self, session: &mut PgConnection) -> Result<Top<String>, FiguresError> {
        let mut rows = match self.subject.link_id {
            Some(link_id) => self.rows_of_link(session, link_id),
            None => self.rows_of_account(session),
        };
        let mut figures = ValueFigures::default();
        while let Some(row) = rows.try_next().await? {
            // Unions of sketches take long: requests for redirects come in between.
            yield_now().await;
            figures.add(row.day, &row.counts)?;
        }
        Ok(figures.top(self.limit))
    }
}

/// Stored counts of a dimension on a day.
struct CountsOfDay {
    day: Date,
    counts: Vec<u8>,
}

impl TopValuesQuery {
    fn rows_of_link<'s>(
        &'s self,
        session: &'s mut PgConnection,
        link_id: LinkId,
    ) -> BoxStream<'s, sqlx::Result<CountsOfDay>> {
        let rows = sqlx::query_as!(
            CountsOfDay,
            r#"
            SELECT day, CASE $5 WHEN 'country' THEN country WHEN 'referrer_host' THEN referrer_host
                                WHEN 'browser' THEN browser WHEN 'os' THEN os
                                WHEN 'device' THEN device END AS "counts!"
            FROM clicks.link_values
            WHERE account_id = $1 AND link_id = $2 AND day >= $3 AND day < $4
            ORDER BY day
            "#,
            self.subject.account_id.uuid(),
            link_id.uuid(),
            self.days.start,
            self.days.end,
            self.dimension.name()
        );
        rows.fetch(session)
    }

    fn rows_of_account<'s>(
        &'s self,
        session: &'s mut PgConnection,
    ) -> BoxStream<'s, sqlx::Result<CountsOfDay>> {
        let rows = sqlx::query_as!(
            CountsOfDay,
            r#"
            SELECT day, CASE $4 WHEN 'country' THEN country WHEN 'referrer_host' THEN referrer_host
                                WHEN 'browser' THEN browser WHEN 'os' THEN os
                                WHEN 'device' THEN device END AS "counts!"
            FROM clicks.account_values
            WHERE account_id = $1 AND day >= $2 AND day < $3
            ORDER BY day
            "#,
            self.subject.account_id.uuid(),
            self.days.start,
            self.days.end,
            self.dimension.name()
        );
        rows.fetch(session)
    }
}

/// Link of a ranking.
struct RankedLink {
    link_id: LinkId,
    clicks: i64,
    /// Sum of the clicks of all links, beyond the limit too.
    all_clicks: i64,
}

/// Returns the items of links that are in order, without visitors.
fn ranked(links: Vec<RankedLink>) -> Result<Top<LinkId>, FiguresError> {
    let all = unsigned(links.first().map_or(0, |link| link.all_clicks))?;
    let mut items = Vec::with_capacity(links.len());
    for link in links {
        items.push(TopItem {
            key: link.link_id,
            clicks: unsigned(link.clicks)?,
            visitors: 0,
        });
    }
    let shown: u64 = items.iter().map(|item| item.clicks).sum();
    Ok(Top {
        items,
        other: all.saturating_sub(shown),
    })
}

/// The `limit` most clicked links of an account.
pub(crate) struct TopLinksQuery {
    pub(crate) account_id: AccountId,
    pub(crate) days: Range<Date>,
    pub(crate) limit: i64,
}

impl FigureQuery for TopLinksQuery {
    type Figures = Top<LinkId>;

    fn account_id(&self) -> AccountId {
        self.account_id
    }

    async fn read(&self, session: &mut PgConnection) -> Result<Top<LinkId>, FiguresError> {
        let rows = self.rows(&mut *session).await?;
        let mut top = ranked(rows)?;
        let link_ids: Vec<Uuid> = top.items.iter().map(|item| item.key.uuid()).collect();
        let visitors = self.visitors(session, &link_ids).await?;
        for item in &mut top.items {
            item.visitors = visitors.get(&item.key.uuid()).copied().unwrap_or_default();
        }
        Ok(top)
    }
}

impl TopLinksQuery {
    async fn rows(&self, session: &mut PgConnection) -> sqlx::Result<Vec<RankedLink>> {
        let rows = sqlx::query_as!(
            RankedLink,
            r#"
        SELECT link_id AS "link_id!: LinkId", sum(clicks)::bigint AS "clicks!",
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
            // Many sketches take long: other tasks, such as redirects, run in between.
            yield_now().await;
            let sketch = stored_sketch(row.day, &row.visitors)?;
            *visitors.entry(row.link_id).or_default() += sketch.estimate();
        }
        Ok(visitors)
    }
}
