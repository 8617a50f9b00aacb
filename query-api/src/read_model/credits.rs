//! Projection `credits`: the balance of an account, and the entries of its ledger.

use linkledger_core::{
    id::{AccountId, EntryId, LinkId},
    shard::Shard,
    timestamp,
};
use linkledger_http::openapi::Timestamp;
use serde::Serialize;
use sqlx::PgPool;
use utoipa::ToSchema;

use super::{SnapshotRead, Visibility};

/// Entry as sent to the client. `description` and `refunds` are absent where there is none.
#[derive(Serialize, ToSchema)]
#[schema(as = CreditEntry)]
pub(crate) struct LedgerEntry {
    #[schema(inline)]
    id: EntryId,
    /// Version in the account's stream, which orders the ledger.
    #[serde(skip)]
    pub(crate) version: i64,
    /// `grant`, `charge`, `adjustment`, `refund` or `revocation`; later releases may add types.
    #[serde(rename = "type")]
    kind: String,
    /// Change of the balance: negative for a charge and a revocation.
    amount: i64,
    /// Balance right after the entry.
    #[schema(minimum = 0)]
    balance_after: i64,
    /// Link that a charge paid for, or whose charge a refund gives back; null for every other type.
    #[schema(required, value_type = Option<String>)]
    link_id: Option<LinkId>,
    /// Description of a grant or an adjustment. Absent if there is none.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Entry of the charge that a refund gives back. Absent for every other type.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    refunds: Option<EntryId>,
    #[schema(inline, value_type = Timestamp)]
    created_at: String,
}

/// Range of an account's ledger, newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryRange {
    pub(crate) account_id: AccountId,
    /// Version of the account's stream that all entries come before; `None` for the newest entries.
    pub(crate) before: Option<i64>,
    pub(crate) count_max: i64,
}

/// Reads the balance of an account; 0 for an account without entries.
pub(crate) async fn balance(
    pool: &PgPool,
    account_id: AccountId,
) -> sqlx::Result<SnapshotRead<i64>> {
    let row = sqlx::query!(
        r#"
        SELECT c.epoch, c.position,
               EXISTS (
                   SELECT FROM read_model.parked_accounts AS p
                   WHERE p.account_id = $2 AND p.projection = c.projection
                     AND p.generation = c.generation
               ) AS "is_parked!",
               b.balance AS "balance?"
        FROM read_model.checkpoints AS c
        LEFT JOIN read_model.credit_balances AS b
               ON b.generation = c.generation AND b.account_id = $2
        WHERE c.projection = 'credits' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'credits'
          )
        "#,
        Shard::of(account_id).number(),
        account_id.uuid()
    )
    .fetch_one(pool)
    .await?;
    let visibility = Visibility::new(row.epoch, row.position, row.is_parked);
    Ok(visibility.with(row.balance.unwrap_or(0)))
}

/// Reads entries of an account's ledger.
pub(crate) async fn entries(
    pool: &PgPool,
    range: EntryRange,
) -> sqlx::Result<SnapshotRead<Vec<LedgerEntry>>> {
    // The outer join keeps the checkpoint when there are no entries.
    let rows = sqlx::query!(
        r#"
        SELECT c.epoch, c.position,
               EXISTS (
                   SELECT FROM read_model.parked_accounts AS p
                   WHERE p.account_id = $2 AND p.projection = c.projection
                     AND p.generation = c.generation
               ) AS "is_parked!",
               e.entry_id AS "entry_id?", e.version AS "version?", e.type AS "kind?",
               e.amount AS "amount?", e.balance_after AS "balance_after?",
               e.link_id AS "link_id?", e.description, e.refunds AS "refunds?",
               e.created_at AS "created_at?"
        FROM read_model.checkpoints AS c
        LEFT JOIN LATERAL (
            SELECT entry_id, version, type, amount, balance_after, link_id, description, refunds,
                   created_at
            FROM read_model.credit_entries
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'credits'
                  )
              AND account_id = $2 AND version < $3
            ORDER BY version DESC
            LIMIT $4
        ) AS e ON true
        WHERE c.projection = 'credits' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'credits'
          )
        ORDER BY e.version DESC
        "#,
        Shard::of(range.account_id).number(),
        range.account_id.uuid(),
        range.before.unwrap_or(i64::MAX),
        range.count_max
    )
    .fetch_all(pool)
    .await?;
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let visibility = Visibility::new(first.epoch, first.position, first.is_parked);
    let entries = rows.into_iter().filter_map(|row| {
        Some(LedgerEntry {
            id: EntryId::from_uuid(row.entry_id?),
            version: row.version?,
            kind: row.kind?,
            amount: row.amount?,
            balance_after: row.balance_after?,
            link_id: row.link_id.map(LinkId::from_uuid),
            description: row.description,
            refunds: row.refunds.map(EntryId::from_uuid),
            created_at: timestamp::format(row.created_at?),
        })
    });
    Ok(visibility.with(entries.collect()))
}
