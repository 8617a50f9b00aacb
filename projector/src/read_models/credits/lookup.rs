//! Rows of `read_model.credit_entries` and `read_model.credit_balances`, by key.

use linkledger_core::id::EntryId;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

/// Row of `read_model.credit_entries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryRow {
    pub entry_id: EntryId,
    #[serde(rename = "type")]
    pub kind: String,
    pub amount: i64,
    pub balance_after: i64,
    pub version: i64,
}

/// Row of `read_model.credit_balances`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BalanceRow {
    pub balance: i64,
    pub version: i64,
}

/// Returns the entry of an account with a version.
pub(crate) async fn entry_in_tx(
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

/// Returns the balance of the account.
pub(crate) async fn balance_in_tx(
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
