//! Tables `clicks.link_values` and `clicks.account_values`.

use std::{
    array,
    collections::{BTreeMap, HashMap},
};

use linkledger_clicks::{
    Dimension, dimension::OTHER_VALUES, dimension_counts::DimensionCounts, tally::ValueRow,
};
use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::Date;
use uuid::Uuid;

use super::visitors::with_visitors;

/// Number of dimensions.
const DIMENSIONS: usize = Dimension::ALL.len();

/// Maximum number of rows of one statement: a row of a busy link has hundreds of sketches, and all rows of a
/// statement are in memory.
const ROWS_MAX: usize = 100;

pub(super) async fn add_of_links_in_tx(
    tx: &mut PgConnection,
    rows: &BTreeMap<(AccountId, LinkId, Date), ValueRow>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let keys = chunk.iter().map(|(key, _)| key);
        let accounts: Vec<Uuid> = keys.clone().map(|(account, ..)| account.uuid()).collect();
        let links: Vec<Uuid> = keys.clone().map(|(_, link, _)| link.uuid()).collect();
        let days: Vec<Date> = keys.map(|(.., day)| *day).collect();
        let stored = sqlx::query!(
            r#"
            SELECT k.number AS "number!",
                   ARRAY[t.country, t.referrer_host, t.browser, t.os, t.device] AS "cells!"
            FROM unnest($1::uuid[], $2::uuid[], $3::date[]) WITH ORDINALITY
                AS k (account_id, link_id, day, number)
            JOIN clicks.link_values AS t USING (account_id, link_id, day)
            "#,
            &accounts,
            &links,
            &days
        )
        .fetch_all(&mut *tx)
        .await?;
        let stored = stored.into_iter().map(|row| (row.number, row.cells));
        let rows = chunk.iter().map(|(_, row)| *row);
        let [country, referrer_host, browser, os, device] = columns(stored.collect(), rows);
        sqlx::query!(
            "
            INSERT INTO clicks.link_values
                (account_id, link_id, day, country, referrer_host, browser, os, device)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::date[], $4::bytea[], $5::bytea[],
                                 $6::bytea[], $7::bytea[], $8::bytea[])
            ON CONFLICT (account_id, link_id, day) DO UPDATE
            SET country = excluded.country, referrer_host = excluded.referrer_host,
                browser = excluded.browser, os = excluded.os, device = excluded.device
            ",
            &accounts,
            &links,
            &days,
            &country,
            &referrer_host,
            &browser,
            &os,
            &device
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

pub(super) async fn add_of_accounts_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    rows: &BTreeMap<(AccountId, Date), ValueRow>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let keys = chunk.iter().map(|(key, _)| key);
        let accounts: Vec<Uuid> = keys.clone().map(|(account, _)| account.uuid()).collect();
        let days: Vec<Date> = keys.map(|(_, day)| *day).collect();
        let stored = sqlx::query!(
            r#"
            SELECT k.number AS "number!",
                   ARRAY[t.country, t.referrer_host, t.browser, t.os, t.device] AS "cells!"
            -- A condition on the partition alone would let a plan of an empty table scan the whole index.
            FROM unnest($1::smallint[], $2::uuid[], $3::date[])
                WITH ORDINALITY AS k (partition, account_id, day, number)
            JOIN clicks.account_values AS t USING (account_id, day, partition)
            "#,
            &vec![i16::from(partition); days.len()],
            &accounts,
            &days
        )
        .fetch_all(&mut *tx)
        .await?;
        let stored = stored.into_iter().map(|row| (row.number, row.cells));
        let rows = chunk.iter().map(|(_, row)| *row);
        let [country, referrer_host, browser, os, device] = columns(stored.collect(), rows);
        sqlx::query!(
            "
            INSERT INTO clicks.account_values
                (account_id, day, partition, country, referrer_host, browser, os, device)
            SELECT n.account_id, n.day, $1::smallint, n.country, n.referrer_host, n.browser, n.os, n.device
            FROM unnest($2::uuid[], $3::date[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[],
                        $8::bytea[])
                AS n (account_id, day, country, referrer_host, browser, os, device)
            ON CONFLICT (account_id, day, partition) DO UPDATE
            SET country = excluded.country, referrer_host = excluded.referrer_host,
                browser = excluded.browser, os = excluded.os, device = excluded.device
            ",
            i16::from(partition),
            &accounts,
            &days,
            &country,
            &referrer_host,
            &browser,
            &os,
            &device
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Returns the columns of the rows of a statement after the new clicks, in the order of the dimensions. The stored rows
/// are by their numbers in the statement, from 1, each with its counts in the order of the dimensions.
fn columns<'a>(
    mut stored: HashMap<i64, Vec<Vec<u8>>>,
    rows: impl Iterator<Item = &'a ValueRow>,
) -> [Vec<Vec<u8>>; DIMENSIONS] {
    let mut columns: [Vec<Vec<u8>>; DIMENSIONS] = array::from_fn(|_| Vec::new());
    for (number, row) in (1..).zip(rows) {
        let cells = stored.remove(&number).unwrap_or_default();
        for (index, dimension) in Dimension::ALL.into_iter().enumerate() {
            let cell = cells.get(index).map_or(&[][..], Vec::as_slice);
            columns[index].push(with_clicks(cell, row, dimension));
        }
    }
    columns
}

/// Returns the counts of a dimension after the new clicks. Damaged counts are logged and begun anew, because they
/// would delay all other statistics otherwise.
fn with_clicks(stored: &[u8], row: &ValueRow, dimension: Dimension) -> Vec<u8> {
    let counts = match stored {
        [] => Ok(DimensionCounts::default()),
        stored => DimensionCounts::from_bytes(stored),
    };
    let mut counts = counts.unwrap_or_else(|error| {
        let dimension = dimension.name();
        tracing::error!(%error, dimension, "stored counts of a dimension are begun anew");
        DimensionCounts::default()
    });
    for (value, new) in row.of(dimension) {
        let key = counts.key_of(value);
        let count = counts.count_mut(key);
        count.clicks = count.clicks.saturating_add(new.clicks);
        // Nobody asks for the visitors of all other values, and thousands of made-up values would each update the
        // sketch.
        if key == OTHER_VALUES {
            continue;
        }
        let known = (!count.visitors.is_empty()).then_some(&count.visitors);
        if let Some(visitors) = with_visitors(known, &new.visitors) {
            count.visitors = visitors;
        }
    }
    counts.to_bytes()
}
