//! Conservation of credits: grants, charges and adjustments of an account add up to its balance.
//!
//! Each entry must continue from the balance after the previous entry, and the last entry must end at
//! the balance of the account. Then the sum of all entries is the balance, however long the ledger is,
//! and the entry at which the sum breaks can be named.

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::PgPool;
use uuid::Uuid;

use super::{
    VerificationReport,
    findings::{Finding, FindingKind, FindingPlace, FoundRow},
    orphans::PAGE_ROWS,
    snapshot::{self, GenerationTarget},
};
use crate::{pipeline::retry::retried, read_models::credits::ENTRIES};

/// Account and version of the first entry of a page. Added up already, as the last row of the page
/// before.
type FirstEntry = (Uuid, i64);

/// A page of entries in the order of accounts and versions, beside one of its findings if there are
/// any.
struct LedgerRow {
    rows: i64,
    mismatches: i64,
    last_account_id: Uuid,
    last_version: i64,
    account_id: Option<Uuid>,
    entry_id: Option<Uuid>,
    shard: Option<i16>,
}

/// Adds up all ledgers of a generation.
pub(super) async fn verify_ledgers(
    pool: &PgPool,
    target: GenerationTarget,
) -> anyhow::Result<VerificationReport> {
    let mut report = VerificationReport::of(target);
    let mut from = None;
    loop {
        let rows = retried(|| add_up(pool, target, from)).await?;
        let Some(page) = rows.first() else {
            return Ok(report);
        };
        let is_last = page.rows <= PAGE_ROWS;
        from = Some((page.last_account_id, page.last_version));
        let mismatches = page.mismatches.unsigned_abs();
        let named = rows.iter().filter_map(LedgerRow::unbalanced);
        report.findings.add(FindingPlace::Ledger, mismatches, named);
        if is_last {
            return Ok(report);
        }
    }
}

/// Finds the entries of one page that do not add up.
async fn add_up(
    pool: &PgPool,
    target: GenerationTarget,
    from: Option<FirstEntry>,
) -> anyhow::Result<Vec<LedgerRow>> {
    let mut snapshot = snapshot::begin(pool).await?;
    let (account_id, version) = from.unwrap_or((Uuid::nil(), i64::MIN));
    let rows = sqlx::query_as!(
        LedgerRow,
        r#"
        WITH page AS MATERIALIZED (
            SELECT account_id, version, entry_id, amount, balance_after
            FROM read_model.credit_entries
            WHERE generation = $2 AND (account_id, version) >= ($3, $4)
            ORDER BY account_id, version
            LIMIT $6::bigint + 1
        ), chained AS MATERIALIZED (
            SELECT p.*, lag(p.version) OVER of_account AS previous_version,
                   coalesce(lag(p.balance_after) OVER of_account, 0) AS balance_before,
                   -- The last row of a full page is also the first row of the next page, which
                   -- knows the entry after it.
                   lead(p.account_id) OVER in_page IS DISTINCT FROM p.account_id
                       AND (lead(p.account_id) OVER in_page IS NOT NULL
                            OR (SELECT count(*) FROM page) <= $6) AS is_last_entry
            FROM page AS p
            WINDOW of_account AS (PARTITION BY p.account_id ORDER BY p.version),
                   in_page AS (ORDER BY p.account_id, p.version)
        ), unbalanced AS MATERIALIZED (
            SELECT p.account_id, p.version, p.entry_id
            FROM chained AS p
            -- By key: a subquery under OR could be planned as a scan of all balances.
            LEFT JOIN LATERAL (
                SELECT b.balance FROM read_model.credit_balances AS b
                WHERE p.is_last_entry AND b.generation = $2 AND b.account_id = p.account_id
                LIMIT 1
            ) AS b ON true
            WHERE (p.is_last_entry AND b.balance IS DISTINCT FROM p.balance_after)
               -- The first row of a later page was the last one of the page before.
               OR (($5 OR (p.account_id, p.version) <> ($3, $4))
                   AND p.balance_before + p.amount <> p.balance_after
                   -- A skipped event in between is missing from the sum.
                   AND NOT EXISTS (
                       SELECT FROM read_model.skipped_events AS s
                       JOIN event_store.events AS e
                           ON e.shard = s.shard AND e.position = s.position
                          AND e.event_id = s.event_id
                       WHERE s.account_id = p.account_id AND s.projection = $1
                         AND e.stream_id = p.account_id AND e.version < p.version
                         AND e.version > coalesce(p.previous_version, 0)
                   ))
        ), named AS (
            SELECT * FROM unbalanced ORDER BY account_id, version LIMIT 100
        )
        SELECT (SELECT count(*) FROM page) AS "rows!",
               (SELECT count(*) FROM unbalanced) AS "mismatches!",
               last.account_id AS "last_account_id!", last.version AS "last_version!",
               n.account_id AS "account_id?", n.entry_id AS "entry_id?", a.shard AS "shard?"
        FROM (SELECT * FROM page ORDER BY account_id DESC, version DESC LIMIT 1) AS last
        LEFT JOIN named AS n ON true
        LEFT JOIN event_store.accounts AS a ON a.account_id = n.account_id
        "#,
        target.projection.name(),
        target.generation,
        account_id,
        version,
        from.is_none(),
        PAGE_ROWS
    )
    .fetch_all(&mut *snapshot)
    .await
    .context("cannot add up the entries of ledgers")?;
    snapshot.commit().await?;
    Ok(rows)
}

impl LedgerRow {
    fn unbalanced(&self) -> Option<Finding> {
        let row = FoundRow {
            kind: FindingKind::Unbalanced,
            account_id: self.account_id?,
            row_id: self.entry_id,
            columns: String::new(),
        };
        let shard = self.shard.and_then(|number| Shard::new(number.into()));
        Some(Finding::of(&row, &ENTRIES, shard, None))
    }
}
