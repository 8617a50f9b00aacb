//! Orphans: rows that no event explains, searched page by page of a table.
//!
//! A row whose link or account has events is compared in the bucket of those events. Here it is enough
//! that the log, up to the checkpoint of its shard, holds the first event of the row.

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::{
    findings::{Finding, FindingKind, FindingPlace, FoundRow},
    shard_pass::PartReport,
    snapshot::{self, GenerationTarget},
    statements,
};
use crate::read_models::description::ReadTable;

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
    pub(super) account_id: Uuid,
    pub(super) key: KeyText,
    row_id: Option<Uuid>,
    shard: Option<i16>,
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
            page.orphans.push(Orphan {
                account_id,
                key,
                row_id: row.row_id,
                shard: row.shard,
            });
        }
    }
    Ok(page)
}

/// Searches a whole table of a generation.
pub(super) async fn search(
    pool: &PgPool,
    target: GenerationTarget,
    table: &'static ReadTable,
) -> anyhow::Result<PartReport> {
    let mut report = PartReport::default();
    let mut after = None;
    loop {
        let mut snapshot = snapshot::begin(pool).await?;
        let page = read_page(&mut snapshot, target, table, after.as_ref())
            .await
            .with_context(|| format!("cannot read the table `{}`", table.name))?;
        snapshot.commit().await?;
        report.rows_found += page.rows;
        let mismatches = page.orphans.len() as u64;
        let named = page.orphans.into_iter().map(|orphan| {
            let shard = orphan.shard.and_then(|number| Shard::new(number.into()));
            let row = FoundRow {
                kind: FindingKind::Orphan,
                account_id: orphan.account_id,
                row_id: orphan.row_id,
                columns: String::new(),
            };
            Finding::of(&row, table, shard, None)
        });
        let place = FindingPlace::Page { table, after };
        report.findings.add(place, mismatches, named);
        after = page.last;
        if after.is_none() {
            return Ok(report);
        }
    }
}
