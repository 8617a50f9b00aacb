//! Tables `clicks.link_quarters` and `clicks.account_quarters`.

use std::collections::BTreeMap;

use linkledger_core::{
    click::tally::KindCount,
    id::{AccountId, LinkId},
};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{ROWS_MAX, stored};

/// Rows of a statement, as columns.
#[derive(Default)]
struct Columns {
    accounts: Vec<Uuid>,
    links: Vec<Uuid>,
    quarters: Vec<OffsetDateTime>,
    clicks: Vec<i64>,
    bots: Vec<i64>,
}

impl Columns {
    fn push(&mut self, account_id: AccountId, quarter: OffsetDateTime, count: KindCount) {
        self.accounts.push(account_id.uuid());
        self.quarters.push(quarter);
        self.clicks.push(stored(count.clicks));
        self.bots.push(stored(count.bots));
    }
}

pub(super) async fn add_of_links_in_tx(
    tx: &mut PgConnection,
    rows: &BTreeMap<(AccountId, LinkId, OffsetDateTime), KindCount>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let mut columns = Columns::default();
        for ((account_id, link_id, quarter), count) in chunk {
            columns.push(*account_id, *quarter, **count);
            columns.links.push(link_id.uuid());
        }
        sqlx::query!(
            "
            INSERT INTO clicks.link_quarters AS t (account_id, link_id, quarter, clicks, bots)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[], $5::bigint[])
            ON CONFLICT (account_id, link_id, quarter) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots
            ",
            &columns.accounts,
            &columns.links,
            &columns.quarters,
            &columns.clicks,
            &columns.bots
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

pub(super) async fn add_of_accounts_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    rows: &BTreeMap<(AccountId, OffsetDateTime), KindCount>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let mut columns = Columns::default();
        for ((account_id, quarter), count) in chunk {
            columns.push(*account_id, *quarter, **count);
        }
        sqlx::query!(
            "
            INSERT INTO clicks.account_quarters AS t (account_id, quarter, partition, clicks, bots)
            SELECT n.account_id, n.quarter, $1::smallint, n.clicks, n.bots
            FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::bigint[])
                AS n (account_id, quarter, clicks, bots)
            ON CONFLICT (account_id, quarter, partition) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots
            ",
            i16::from(partition),
            &columns.accounts,
            &columns.quarters,
            &columns.clicks,
            &columns.bots
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}
