//! Conservation of credits: grants, charges and adjustments of an account add up to its balance.
//!
//! Each entry must continue from the balance after the previous entry, and the last entry must end at
//! the balance of the account. Then the sum of all entries is the balance, however long the ledger is,
//! and the entry at which the sum breaks can be named.

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{
    findings::{Finding, FindingKind, FindingPlace, FoundRow},
    orphans::PAGE_ROWS,
    shard_pass::PartReport,
    snapshot::{self, GenerationTarget},
};
use crate::read_models::credits::ENTRIES;

/// Account and version of the first entry of a page. Added up already, as the last row of the page
/// before.
type FirstEntry = (Uuid, i64);

/// Entries in the order of accounts and versions.
#[derive(Default)]
struct LedgerPage {
    mismatches: u64,
    /// First entries that do not add up.
    named: Vec<Finding>,
    /// Last entry; `None` at the end of the table.
    last: Option<FirstEntry>,
}

/// The page, beside one of its findings if there are any.
struct LedgerRow {
    rows: i64,
    mismatches: i64,
    last_account_id: Uuid,
    last_version: i64,
    account_id: Option<Uuid>,
    entry_id: Option<Uuid>,
    shard: Option<i16>,
}

impl From<Vec<LedgerRow>> for LedgerPage {
    fn from(rows: Vec<LedgerRow>) -> Self {
        let mut page = Self::default();
        for row in rows {
            page.mismatches = row.mismatches.unsigned_abs();
            page.last = (row.rows > PAGE_ROWS).then_some((row.last_account_id, row.last_version));
            let finding = |account_id| unbalanced(row.shard, account_id, row.entry_id);
            page.named.extend(row.account_id.map(finding));
        }
        page
    }
}

/// Adds up all ledgers of a generation.
pub(super) async fn verify_ledgers(
    pool: &PgPool,
    target: GenerationTarget,
) -> anyhow::Result<PartReport> {
    let mut report = PartReport::default();
    let mut from = None;
    loop {
        let mut snapshot = snapshot::begin(pool).await?;
        let page = add_up(&mut snapshot, target, from)
            .await
            .context("cannot add up the entries of ledgers")?;
        snapshot.commit().await?;
        report
            .findings
            .add(FindingPlace::Ledger, page.mismatches, page.named);
        from = page.last;
        if from.is_none() {
            return Ok(report);
        }
    }
}

/// Finds the entries of one page that do not add up.
async fn add_up(
    tx: &mut PgConnection,
    target: GenerationTarget,
    from: Option<FirstEntry>,
) -> sqlx::Result<LedgerPage> {
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
    .fetch_all(tx)
    .await?;
    Ok(rows.into())
}

fn unbalanced(shard: Option<i16>, account_id: Uuid, entry_id: Option<Uuid>) -> Finding {
    let row = FoundRow {
        kind: FindingKind::Unbalanced,
        account_id,
        row_id: entry_id,
        columns: String::new(),
    };
    let shard = shard.and_then(|number| Shard::new(number.into()));
    Finding::of(&row, &ENTRIES, shard, None)
}
