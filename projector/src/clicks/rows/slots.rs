//! Tables `clicks.link_15min` and `clicks.account_15min`.

use std::collections::BTreeMap;

use linkledger_clicks::tally::KindCount;
use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{ROWS_MAX, stored};

pub(super) async fn add_of_links_in_tx(
    tx: &mut PgConnection,
    rows: &BTreeMap<(AccountId, LinkId, OffsetDateTime), KindCount>,
) -> sqlx::Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let accounts: Vec<Uuid> = chunk.iter().map(|(key, _)| key.0.uuid()).collect();
        let links: Vec<Uuid> = chunk.iter().map(|(key, _)| key.1.uuid()).collect();
        let slots: Vec<OffsetDateTime> = chunk.iter().map(|(key, _)| key.2).collect();
        let clicks: Vec<i64> = chunk.iter().map(|it| stored(it.1.clicks)).collect();
        let bots: Vec<i64> = chunk.iter().map(|it| stored(it.1.bots)).collect();
        sqlx::query!(
            "
            INSERT INTO clicks.link_15min AS t (account_id, link_id, slot_start, clicks, bots)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[], $5::bigint[])
            ON CONFLICT (account_id, link_id, slot_start) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots
            ",
            &accounts,
            &links,
            &slots,
            &clicks,
            &bots
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
        let accounts: Vec<Uuid> = chunk.iter().map(|(key, _)| key.0.uuid()).collect();
        let slots: Vec<OffsetDateTime> = chunk.iter().map(|(key, _)| key.1).collect();
        let clicks: Vec<i64> = chunk.iter().map(|it| stored(it.1.clicks)).collect();
        let bots: Vec<i64> = chunk.iter().map(|it| stored(it.1.bots)).collect();
        sqlx::query!(
            "
            INSERT INTO clicks.account_15min AS t (account_id, slot_start, partition, clicks, bots)
            SELECT n.account_id, n.slot_start, $1::smallint, n.clicks, n.bots
            FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::bigint[])
                AS n (account_id, slot_start, clicks, bots)
            ON CONFLICT (account_id, slot_start, partition) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots
            ",
            i16::from(partition),
            &accounts,
            &slots,
            &clicks,
            &bots
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}
