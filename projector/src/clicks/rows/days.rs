//! Tables `clicks.link_days` and `clicks.account_days`.

use std::collections::{BTreeMap, HashMap};

use linkledger_clicks::tally::DayCount;
use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::{Date, OffsetDateTime};
use uuid::Uuid;

use super::{ROWS_MAX, first_clicks::FirstClick, stored, visitors::with_visitors};

/// Clicks, bots and sketches of visitors of the rows of a statement. A sketch is `None` if the stored one remains.
type Counts = (Vec<i64>, Vec<i64>, Vec<Option<Vec<u8>>>);

/// Account, link and day of a row.
type LinkDay = (AccountId, LinkId, Date);

/// Adds rows, and returns the first clicks of links that had no human click on the day.
pub(super) async fn add_of_links_in_tx(
    tx: &mut PgConnection,
    rows: &BTreeMap<LinkDay, DayCount>,
) -> sqlx::Result<Vec<FirstClick>> {
    let rows: Vec<_> = rows.iter().collect();
    let mut first_clicks = Vec::new();
    for chunk in rows.chunks(ROWS_MAX) {
        let accounts: Vec<Uuid> = chunk.iter().map(|(key, _)| key.0.uuid()).collect();
        let links: Vec<Uuid> = chunk.iter().map(|(key, _)| key.1.uuid()).collect();
        let days: Vec<Date> = chunk.iter().map(|(key, _)| key.2).collect();
        let clicked = chunk
            .iter()
            .filter_map(|(key, count)| Some((*key, count.first_clicked_at?)));
        let clicked: Vec<(&LinkDay, OffsetDateTime)> = clicked.collect();
        let known = with_clicks_in_tx(tx, &clicked).await?;
        let new = clicked.iter().filter(|(key, _)| !known.contains_key(*key));
        first_clicks.extend(new.map(|((account_id, link_id, _), at)| (*account_id, *link_id, *at)));
        let (clicks, bots, visitors) = counts(chunk, |key| known.get(key)?.as_ref());
        sqlx::query!(
            "
            INSERT INTO clicks.link_days AS t (account_id, link_id, day, clicks, bots, visitors)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::date[], $4::bigint[], $5::bigint[],
                                 $6::bytea[])
            ON CONFLICT (account_id, link_id, day) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
                visitors = coalesce(excluded.visitors, t.visitors)
            ",
            &accounts,
            &links,
            &days,
            &clicks,
            &bots,
            &visitors as &[Option<Vec<u8>>]
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(first_clicks)
}

/// Returns those of the rows that have human clicks already, each with its sketch of visitors.
async fn with_clicks_in_tx(
    tx: &mut PgConnection,
    clicked: &[(&LinkDay, OffsetDateTime)],
) -> sqlx::Result<HashMap<LinkDay, Option<Vec<u8>>>> {
    let keys = clicked.iter().map(|(key, _)| key);
    let rows = sqlx::query!(
        r#"
        SELECT account_id AS "account_id!", link_id AS "link_id!", day AS "day!", t.visitors
        FROM unnest($1::uuid[], $2::uuid[], $3::date[]) AS k (account_id, link_id, day)
        JOIN clicks.link_days AS t USING (account_id, link_id, day)
        WHERE t.clicks > 0
        "#,
        &keys.clone().map(|key| key.0.uuid()).collect::<Vec<_>>(),
        &keys.clone().map(|key| key.1.uuid()).collect::<Vec<_>>(),
        &keys.map(|key| key.2).collect::<Vec<_>>()
    )
    .fetch_all(tx)
    .await?;
    let rows = rows.into_iter().map(|row| {
        let account_id = AccountId::from_uuid(row.account_id);
        let key = (account_id, LinkId::from_uuid(row.link_id), row.day);
        (key, row.visitors)
    });
    Ok(rows.collect())
}

pub(super) async fn add_of_accounts_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    rows: &BTreeMap<(AccountId, Date), DayCount>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let accounts: Vec<Uuid> = chunk.iter().map(|(key, _)| key.0.uuid()).collect();
        let days: Vec<Date> = chunk.iter().map(|(key, _)| key.1).collect();
        let visited = with_new_visitors(chunk);
        let known = sqlx::query!(
            r#"
            SELECT account_id AS "account_id!", day AS "day!", t.visitors AS "visitors!"
            -- A condition on the partition alone would let a plan of an empty table scan the whole index.
            FROM unnest($1::smallint[], $2::uuid[], $3::date[]) AS k (partition, account_id, day)
            JOIN clicks.account_days AS t USING (account_id, day, partition)
            WHERE t.visitors IS NOT NULL
            "#,
            &vec![i16::from(partition); visited.len()],
            &visited.iter().map(|key| key.0.uuid()).collect::<Vec<_>>(),
            &visited.iter().map(|key| key.1).collect::<Vec<_>>()
        )
        .fetch_all(&mut *tx)
        .await?;
        let known = known.into_iter();
        let sketches: HashMap<_, _> = known
            .map(|row| ((row.account_id, row.day), row.visitors))
            .collect();
        let (clicks, bots, visitors) = counts(chunk, |(account_id, day)| {
            sketches.get(&(account_id.uuid(), *day))
        });
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
            &accounts,
            &days,
            &clicks,
            &bots,
            &visitors as &[Option<Vec<u8>>]
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Returns the keys of the rows whose stored sketches are needed: a sketch may take 8 KiB.
fn with_new_visitors<'a, K>(rows: &[(&'a K, &DayCount)]) -> Vec<&'a K> {
    let visited = rows.iter().filter(|(_, count)| !count.visitors.is_empty());
    visited.map(|(key, _)| *key).collect()
}

fn counts<'a, K>(
    rows: &[(&K, &DayCount)],
    sketch_of: impl Fn(&K) -> Option<&'a Vec<u8>>,
) -> Counts {
    let counts = rows.iter().map(|(key, count)| {
        let visitors = with_visitors(sketch_of(key), &count.visitors);
        (
            stored(count.count.clicks),
            stored(count.count.bots),
            visitors,
        )
    });
    counts.collect()
}
