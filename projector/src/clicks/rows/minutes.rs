//! Table `clicks.link_minutes`.

use std::collections::{BTreeMap, BTreeSet};

use linkledger_clicks::tally::KindCount;
use linkledger_core::id::{AccountId, LinkId};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{ROWS_MAX, stored};

/// Adds the rows of accounts whose webhooks want them.
pub(super) async fn add_in_tx(
    tx: &mut PgConnection,
    rows: &BTreeMap<(OffsetDateTime, AccountId, LinkId), KindCount>,
) -> sqlx::Result<()> {
    let accounts: BTreeSet<AccountId> = rows.keys().map(|key| key.1).collect();
    if accounts.is_empty() {
        return Ok(());
    }
    let subscribers = subscribers_in_tx(tx, &accounts).await?;
    let rows = rows.iter().filter(|(key, _)| subscribers.contains(&key.1));
    let rows: Vec<_> = rows.collect();
    for chunk in rows.chunks(ROWS_MAX) {
        let minutes: Vec<OffsetDateTime> = chunk.iter().map(|(key, _)| key.0).collect();
        let accounts: Vec<Uuid> = chunk.iter().map(|(key, _)| key.1.uuid()).collect();
        let links: Vec<Uuid> = chunk.iter().map(|(key, _)| key.2.uuid()).collect();
        let clicks: Vec<i64> = chunk.iter().map(|it| stored(it.1.clicks)).collect();
        let bots: Vec<i64> = chunk.iter().map(|it| stored(it.1.bots)).collect();
        sqlx::query!(
            "
            INSERT INTO clicks.link_minutes AS t (minute, account_id, link_id, clicks, bots)
            SELECT * FROM unnest($1::timestamptz[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[])
            ON CONFLICT (minute, account_id, link_id) DO UPDATE
            SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots
            ",
            &minutes,
            &accounts,
            &links,
            &clicks,
            &bots
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Returns those of the accounts that have an enabled webhook which names `link.clicks`; all of them while an enabled
/// webhook of operators names it.
async fn subscribers_in_tx(
    tx: &mut PgConnection,
    accounts: &BTreeSet<AccountId>,
) -> sqlx::Result<BTreeSet<AccountId>> {
    let accounts: Vec<Uuid> = accounts.iter().map(|it| it.uuid()).collect();
    // Not EXISTS: planned on an empty table, it may read the webhooks of all accounts.
    let subscribers = sqlx::query_scalar!(
        r#"
        SELECT clicked.account_id AS "account_id!" FROM unnest($1::uuid[]) AS clicked (account_id)
        WHERE (
            -- Another form of the condition below, for the index of operators' webhooks.
            SELECT true FROM event_store.webhooks
            WHERE all_accounts AND enabled AND types @> '{link.clicks}'
            LIMIT 1
        ) OR (
            SELECT true FROM event_store.webhooks
            WHERE account_id = clicked.account_id AND enabled AND 'link.clicks' = ANY (types)
            LIMIT 1
        )
        "#,
        &accounts
    )
    .fetch_all(tx)
    .await?;
    Ok(subscribers.into_iter().map(AccountId::from_uuid).collect())
}
