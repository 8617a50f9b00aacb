//! Tables `clicks.link_days` and `clicks.account_days`.

use std::collections::{BTreeMap, HashMap};

use linkledger_core::{
    click::tally::DayCount,
    id::{AccountId, LinkId},
};
use sqlx::PgConnection;
use time::Date;
use uuid::Uuid;

use super::{ROWS_MAX, stored, visitors::with_visitors};

/// Rows of a statement, as columns.
#[derive(Default)]
struct Columns {
    accounts: Vec<Uuid>,
    links: Vec<Uuid>,
    days: Vec<Date>,
    clicks: Vec<i64>,
    bots: Vec<i64>,
    /// `None` if the stored sketch remains.
    visitors: Vec<Option<Vec<u8>>>,
}

impl Columns {
    fn push(
        &mut self,
        account_id: AccountId,
        day: Date,
        count: &DayCount,
        sketch: Option<&Vec<u8>>,
    ) {
        self.accounts.push(account_id.uuid());
        self.days.push(day);
        self.clicks.push(stored(count.count.clicks));
        self.bots.push(stored(count.count.bots));
        self.visitors.push(with_visitors(sketch, &count.visitors));
    }
}

pub(super) async fn add_of_links_in_tx(
    tx: &mut PgConnection,
    rows: &BTreeMap<(AccountId, LinkId, Date), DayCount>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let sketches = sketches_of_links_in_tx(tx, chunk).await?;
        let mut columns = Columns::default();
        for ((account_id, link_id, day), count) in chunk {
            let sketch = sketches.get(&(account_id.uuid(), link_id.uuid(), *day));
            columns.push(*account_id, *day, count, sketch);
            columns.links.push(link_id.uuid());
        }
        sqlx::query!(
            "
            INSERT INTO clicks.link_days AS t (account_id, link_id, day, clicks, bots, visitors)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::date[], $4::bigint[], $5::bigint[],
                                 $6::bytea[])
            ON CONFLICT (account_id, link_id, day) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
                visitors = coalesce(excluded.visitors, t.visitors)
            ",
            &columns.accounts,
            &columns.links,
            &columns.days,
            &columns.clicks,
            &columns.bots,
            &columns.visitors as &[Option<Vec<u8>>]
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Returns the stored sketches of visitors of the rows that have new visitors.
async fn sketches_of_links_in_tx(
    tx: &mut PgConnection,
    rows: &[(&(AccountId, LinkId, Date), &DayCount)],
) -> sqlx::Result<HashMap<(Uuid, Uuid, Date), Vec<u8>>> {
    let mut columns = Columns::default();
    for ((account_id, link_id, day), _) in with_new_visitors(rows) {
        columns.accounts.push(account_id.uuid());
        columns.links.push(link_id.uuid());
        columns.days.push(*day);
    }
    let rows = sqlx::query!(
        r#"
        SELECT account_id AS "account_id!", link_id AS "link_id!", day AS "day!",
               t.visitors AS "visitors!"
        FROM unnest($1::uuid[], $2::uuid[], $3::date[]) AS k (account_id, link_id, day)
        JOIN clicks.link_days AS t USING (account_id, link_id, day)
        WHERE t.visitors IS NOT NULL
        "#,
        &columns.accounts,
        &columns.links,
        &columns.days
    )
    .fetch_all(tx)
    .await?;
    let rows = rows.into_iter();
    Ok(rows
        .map(|row| ((row.account_id, row.link_id, row.day), row.visitors))
        .collect())
}

pub(super) async fn add_of_accounts_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    rows: &BTreeMap<(AccountId, Date), DayCount>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let sketches = sketches_of_accounts_in_tx(tx, partition, chunk).await?;
        let mut columns = Columns::default();
        for ((account_id, day), count) in chunk {
            let sketch = sketches.get(&(account_id.uuid(), *day));
            columns.push(*account_id, *day, count, sketch);
        }
        sqlx::query!(
            "
            INSERT INTO clicks.account_days AS t (account_id, day, partition, clicks, bots, visitors)
            SELECT n.account_id, n.day, $1::smallint, n.clicks, n.bots, n.visitors
            FROM unnest($2::uuid[], $3::date[], $4::bigint[], $5::bigint[], $6::bytea[])
                AS n (account_id, day, clicks, bots, visitors)
            ON CONFLICT (account_id, day, partition) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
                visitors = coalesce(excluded.visitors, t.visitors)
            ",
            i16::from(partition),
            &columns.accounts,
            &columns.days,
            &columns.clicks,
            &columns.bots,
            &columns.visitors as &[Option<Vec<u8>>]
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

async fn sketches_of_accounts_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    rows: &[(&(AccountId, Date), &DayCount)],
) -> sqlx::Result<HashMap<(Uuid, Date), Vec<u8>>> {
    let mut columns = Columns::default();
    for ((account_id, day), _) in with_new_visitors(rows) {
        columns.accounts.push(account_id.uuid());
        columns.days.push(*day);
    }
    let rows = sqlx::query!(
        r#"
        SELECT account_id AS "account_id!", day AS "day!", t.visitors AS "visitors!"
        -- A condition on the partition alone would let a plan of an empty table scan the whole index.
        FROM unnest($1::smallint[], $2::uuid[], $3::date[]) AS k (partition, account_id, day)
        JOIN clicks.account_days AS t USING (account_id, day, partition)
        WHERE t.visitors IS NOT NULL
        "#,
        &vec![i16::from(partition); columns.days.len()],
        &columns.accounts,
        &columns.days
    )
    .fetch_all(tx)
    .await?;
    let rows = rows.into_iter();
    Ok(rows
        .map(|row| ((row.account_id, row.day), row.visitors))
        .collect())
}

fn with_new_visitors<'a, K>(
    rows: &'a [(&'a K, &'a DayCount)],
) -> impl Iterator<Item = &'a (&'a K, &'a DayCount)> {
    rows.iter().filter(|(_, count)| !count.visitors.is_empty())
}
