//! Rows of the read tables, by key.

use linkledger_core::{
    id::{AccountId, EntryId, LinkId},
    timestamp,
};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

/// Most links of an account that are counted.
pub(super) const LINKS_COUNTED_MAX: i64 = 1_000;

/// A row of `read_model.links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkRow {
    pub slug: String,
    pub destination_url: String,
    pub version: i64,
    pub created_at: String,
}

/// A row of `read_model.redirects`, and whether its account's links may be followed at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RedirectRow {
    pub slug_folded: String,
    pub link_id: LinkId,
    pub account_id: AccountId,
    pub destination_url: String,
    pub state: String,
    pub account_is_stopped: bool,
}

/// A row of `read_model.credit_entries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryRow {
    pub entry_id: EntryId,
    #[serde(rename = "type")]
    pub kind: String,
    pub amount: i64,
    pub balance_after: i64,
    pub version: i64,
}

/// A row of `read_model.credit_balances`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BalanceRow {
    pub balance: i64,
    pub version: i64,
}

pub(super) async fn link_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
    link_id: Uuid,
) -> sqlx::Result<Option<LinkRow>> {
    let row = sqlx::query!(
        "
        SELECT slug, destination_url, version, created_at FROM read_model.links
        WHERE generation = $1 AND account_id = $2 AND link_id = $3
        ",
        generation,
        account_id,
        link_id
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| LinkRow {
        slug: row.slug,
        destination_url: row.destination_url,
        version: row.version,
        created_at: timestamp::format(row.created_at),
    }))
}

pub(super) async fn redirect_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    slug_folded: &str,
) -> sqlx::Result<Option<RedirectRow>> {
    let row = sqlx::query!(
        "
        SELECT link_id, account_id, destination_url, state FROM read_model.redirects
        WHERE generation = $1 AND slug_folded = $2
        ",
        generation,
        slug_folded
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| RedirectRow {
        slug_folded: slug_folded.to_owned(),
        link_id: LinkId::from_uuid(row.link_id),
        account_id: AccountId::from_uuid(row.account_id),
        destination_url: row.destination_url,
        state: row.state,
        account_is_stopped: false,
    }))
}

pub(super) async fn is_stopped_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        SELECT EXISTS (
            SELECT FROM read_model.stopped_accounts WHERE generation = $1 AND account_id = $2
        ) AS "is_stopped!"
        "#,
        generation,
        account_id
    )
    .fetch_one(tx)
    .await
}

pub(super) async fn links_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"
        SELECT count(*) AS "links!" FROM (
            SELECT FROM read_model.links WHERE generation = $1 AND account_id = $2 LIMIT $3
        ) AS counted
        "#,
        generation,
        account_id,
        LINKS_COUNTED_MAX
    )
    .fetch_one(tx)
    .await
}

pub(super) async fn entry_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
    version: i64,
) -> sqlx::Result<Option<EntryRow>> {
    let row = sqlx::query!(
        "
        SELECT entry_id, type AS kind, amount, balance_after FROM read_model.credit_entries
        WHERE generation = $1 AND account_id = $2 AND version = $3
        ",
        generation,
        account_id,
        version
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| EntryRow {
        entry_id: EntryId::from_uuid(row.entry_id),
        kind: row.kind,
        amount: row.amount,
        balance_after: row.balance_after,
        version,
    }))
}

pub(super) async fn balance_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
) -> sqlx::Result<Option<BalanceRow>> {
    sqlx::query_as!(
        BalanceRow,
        "
        SELECT balance, version FROM read_model.credit_balances
        WHERE generation = $1 AND account_id = $2
        ",
        generation,
        account_id
    )
    .fetch_optional(tx)
    .await
}
