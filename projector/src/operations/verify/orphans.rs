//! Orphans: rows that no event explains, searched page by page of a table.
//!
//! A row whose link or account has events is compared in the bucket of those events. Here it is enough
//! that the log, up to the checkpoint of its shard, holds the first event of the row.

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::{
    VerificationReport,
    findings::{Finding, FindingKind, FindingPlace, FoundRow},
    snapshot::{self, GenerationTarget},
    statements,
};
use crate::{pipeline::retry::retried, read_models::description::ReadTable};

/// Rows of a page: the database needs some tens of milliseconds.
pub(super) const PAGE_ROWS: i64 = 5_000;

/// Columns of a row's key, as text.
pub(super) type KeyText = Vec<String>;

/// Rows of a table, in the order of its key.
#[derive(Debug, Default)]
pub(super) struct TablePage {
    rows: u64,
    /// Key of the last row; `None` at the end of the table.
    last: Option<KeyText>,
    pub(super) orphans: Vec<Orphan>,
}

/// Row that no event explains.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) key: KeyText,
    finding: Finding,
}

/// Row of [`statements::page`]: the page, and one of its orphans if there are any.
#[derive(FromRow)]
struct PageRow {
    row_count: i64,
    last_key: Vec<String>,
    account_id: Option<Uuid>,
    row_id: Option<Uuid>,
    shard: Option<i16>,
    key: Option<Vec<String>>,
}

/// Reads the page after a key, or the first page; an empty page if the table has no explanation.
pub(super) async fn read_page(
    tx: &mut PgConnection,
    target: GenerationTarget,
    table: &ReadTable,
    after: Option<&KeyText>,
) -> sqlx::Result<TablePage> {
    let mut page = TablePage::default();
    let Some(statement) = statements::page(table, after.is_some()) else {
        return Ok(page);
    };
    let mut statement = sqlx::query_as(AssertSqlSafe(statement))
        .bind(target.projection.name())
        .bind(target.generation)
        .bind(PAGE_ROWS);
    if let Some(after) = after {
        statement = statement.bind(after);
    }
    let rows: Vec<PageRow> = statement.fetch_all(tx).await?;
    for row in rows {
        page.rows = row.row_count.unsigned_abs();
        page.last = (row.row_count >= PAGE_ROWS).then_some(row.last_key);
        if let (Some(account_id), Some(key)) = (row.account_id, row.key) {
            let shard = row.shard.and_then(|number| Shard::new(number.into()));
            let found = FoundRow {
                kind: FindingKind::Orphan,
                account_id,
                row_id: row.row_id,
                columns: String::new(),
            };
            let finding = Finding::of(&found, table, shard, None);
            page.orphans.push(Orphan { key, finding });
        }
    }
    Ok(page)
}

/// Searches a whole table of a generation.
pub(super) async fn search(
    pool: &PgPool,
    target: GenerationTarget,
    table: &'static ReadTable,
) -> anyhow::Result<VerificationReport> {
    let mut report = VerificationReport::of(target);
    let mut after = None;
    loop {
        let page = retried(|| read_snapshot(pool, target, table, after.as_ref())).await?;
        report.rows_found += page.rows;
        let mismatches = page.orphans.len() as u64;
        let named = page.orphans.into_iter().map(|orphan| orphan.finding);
        let place = FindingPlace::Page { table, after };
        report.findings.add(place, mismatches, named);
        after = page.last;
        if after.is_none() {
            return Ok(report);
        }
    }
}

async fn read_snapshot(
    pool: &PgPool,
    target: GenerationTarget,
    table: &ReadTable,
    after: Option<&KeyText>,
) -> anyhow::Result<TablePage> {
    let mut snapshot = snapshot::begin(pool).await?;
    let page = read_page(&mut snapshot, target, table, after)
        .await
        .with_context(|| format!("cannot read the table `{}`", table.name))?;
    snapshot.commit().await?;
    Ok(page)
}
