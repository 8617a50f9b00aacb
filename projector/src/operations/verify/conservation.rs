//! Conservation of credits: grants, charges and adjustments of an account add up to its balance.
//!
//! Each entry must continue from the balance after the previous entry, and the last entry must end at
//! the balance of the account. Then the sum of all entries is the balance, however long the ledger is,
//! and the entry at which the sum breaks can be named.

use anyhow::Context as _;
use linkledger_core::{databases::Databases, id::AccountId, shard::Shard};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{
    VerificationReport,
    exceptions::Exceptions,
    findings::{FindingKind, FindingPlace, FoundRow, NAMED_MAX, VerifyFinding},
    snapshot::{self, GenerationTarget},
    step_size::{StepSize, in_steps},
};
use crate::read_models::credits::ENTRIES;

/// Account and version of the first entry of a page. Added up already, as the last row of the page
/// before.
type FirstEntry = (Uuid, i64);

/// Entry that does not continue from the previous entry, or does not end at the balance.
struct LedgerRow {
    account_id: Uuid,
    entry_id: Uuid,
    version: i64,
    /// Version of the previous entry; 0 for the first one.
    previous_version: i64,
    /// True if the entry is the last one, and does not end at the balance.
    ends_wrong: bool,
}

/// Page of entries in the order of accounts and versions.
struct LedgerPage {
    rows: i64,
    last: Option<FirstEntry>,
    unbalanced: Vec<LedgerRow>,
}

/// Adds up all ledgers of a generation.
pub(super) async fn verify_ledgers(
    databases: &Databases,
    target: GenerationTarget,
) -> anyhow::Result<VerificationReport> {
    let mut report = VerificationReport::of(target);
    let mut size = StepSize::default();
    let mut from = None;
    loop {
        let add_up = |rows_max| async move {
            Ok((add_up(databases, target, from, rows_max).await?, rows_max))
        };
        let (page, rows_max) = in_steps(&mut size, add_up).await?;
        let mismatches = page.unbalanced.len() as u64;
        let named = page.unbalanced.iter().take(NAMED_MAX);
        let named = named.map(LedgerRow::finding);
        report.findings.add(FindingPlace::Ledger, mismatches, named);
        from = page.last;
        if page.rows <= rows_max {
            return Ok(report);
        }
    }
}

/// Finds the entries of one page that do not add up.
async fn add_up(
    databases: &Databases,
    target: GenerationTarget,
    from: Option<FirstEntry>,
    rows_max: i64,
) -> anyhow::Result<LedgerPage> {
    let mut snapshot = snapshot::begin(&databases.read).await?;
    let mut page = read_page(&mut snapshot, target, from, rows_max).await?;
    let of_skipped: Vec<Uuid> = page.unbalanced.iter().map(|it| it.account_id).collect();
    let skipped = Exceptions::of_accounts(&mut snapshot, target, &of_skipped).await?;
    snapshot.commit().await?;
    if skipped.has_skipped() {
        let skipped = versions(&databases.log, &skipped).await?;
        // A skipped event in between is missing from the sum.
        page.unbalanced
            .retain(|row| row.ends_wrong || !skipped.iter().any(|event| row.lacks(*event)));
    }
    Ok(page)
}

async fn read_page(
    tx: &mut PgConnection,
    target: GenerationTarget,
    from: Option<FirstEntry>,
    rows_max: i64,
) -> anyhow::Result<LedgerPage> {
    let (account_id, version) = from.unwrap_or((Uuid::nil(), i64::MIN));
    let rows = sqlx::query!(
        r#"
        WITH page AS MATERIALIZED (
            SELECT account_id, version, entry_id, amount, balance_after
            FROM read_model.credit_entries
            WHERE generation = $1 AND (account_id, version) >= ($2, $3)
            ORDER BY account_id, version
            LIMIT $5::bigint + 1
        ), chained AS MATERIALIZED (
            SELECT p.*, lag(p.version) OVER of_account AS previous_version,
                   coalesce(lag(p.balance_after) OVER of_account, 0) AS balance_before,
                   -- The last row of a full page is also the first row of the next page, which
                   -- knows the entry after it.
                   lead(p.account_id) OVER in_page IS DISTINCT FROM p.account_id
                       AND (lead(p.account_id) OVER in_page IS NOT NULL
                            OR (SELECT count(*) FROM page) <= $5) AS is_last_entry
            FROM page AS p
            WINDOW of_account AS (PARTITION BY p.account_id ORDER BY p.version),
                   in_page AS (ORDER BY p.account_id, p.version)
        ), unbalanced AS MATERIALIZED (
            SELECT p.account_id, p.version, p.entry_id, p.previous_version,
                   p.is_last_entry AND b.balance IS DISTINCT FROM p.balance_after AS ends_wrong
            FROM chained AS p
            -- By key: a subquery under OR could be planned as a scan of all balances.
            LEFT JOIN LATERAL (
                SELECT b.balance FROM read_model.credit_balances AS b
                WHERE p.is_last_entry AND b.generation = $1 AND b.account_id = p.account_id
                LIMIT 1
            ) AS b ON true
            WHERE (p.is_last_entry AND b.balance IS DISTINCT FROM p.balance_after)
               -- The first row of a later page was the last one of the page before.
               OR (($4 OR (p.account_id, p.version) <> ($2, $3))
                   AND p.balance_before + p.amount <> p.balance_after)
        )
        SELECT (SELECT count(*) FROM page) AS "rows!",
               last.account_id AS "last_account_id!", last.version AS "last_version!",
               u.account_id AS "account_id?", u.entry_id AS "entry_id?", u.version AS "version?",
               u.previous_version AS "previous_version?", u.ends_wrong AS "ends_wrong?"
        FROM (SELECT * FROM page ORDER BY account_id DESC, version DESC LIMIT 1) AS last
        LEFT JOIN unbalanced AS u ON true
        ORDER BY u.account_id, u.version
        "#,
        target.generation,
        account_id,
        version,
        from.is_none(),
        rows_max
    )
    .fetch_all(tx)
    .await
    .context("cannot add up the entries of ledgers")?;
    let first = rows.first();
    let unbalanced = rows.iter().filter_map(|row| {
        Some(LedgerRow {
            account_id: row.account_id?,
            entry_id: row.entry_id?,
            version: row.version?,
            previous_version: row.previous_version.unwrap_or(0),
            ends_wrong: row.ends_wrong?,
        })
    });
    Ok(LedgerPage {
        rows: first.map_or(0, |row| row.rows),
        last: first.map(|row| (row.last_account_id, row.last_version)),
        unbalanced: unbalanced.collect(),
    })
}

/// Returns account and version of the skipped events in the streams of accounts.
async fn versions(log: &PgPool, skipped: &Exceptions) -> anyhow::Result<Vec<(Uuid, i64)>> {
    let (shards, positions, event_ids) = skipped.skipped();
    let rows = sqlx::query!(
        "
        SELECT e.account_id, e.version
        FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) AS s (shard, position, event_id)
        JOIN event_store.events AS e
          ON e.shard = s.shard AND e.position = s.position AND e.event_id = s.event_id
        WHERE e.stream_id = e.account_id
        ",
        shards,
        positions,
        event_ids
    )
    .fetch_all(log)
    .await
    .context("cannot read the skipped events of ledgers")?;
    Ok(rows
        .into_iter()
        .map(|row| (row.account_id, row.version))
        .collect())
}

impl LedgerRow {
    /// Returns true if the event stands between this entry and the previous one.
    fn lacks(&self, (account_id, version): (Uuid, i64)) -> bool {
        account_id == self.account_id
            && (self.previous_version + 1..self.version).contains(&version)
    }

    fn finding(&self) -> VerifyFinding {
        let row = FoundRow {
            kind: FindingKind::Unbalanced,
            account_id: self.account_id,
            row_id: Some(self.entry_id),
            columns: String::new(),
        };
        let shard = Shard::of(AccountId::from_uuid(self.account_id));
        VerifyFinding::of(&row, &ENTRIES, Some(shard), None)
    }
}
