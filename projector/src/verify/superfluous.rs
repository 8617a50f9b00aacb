//! Rows that the log can't have led to: looked for from the side of the tables, page by page.
//!
//! A row whose link or account is in the log is compared in the bucket of that; here it is enough
//! that the log has it, up to the checkpoint of its shard.

mod credit_pages;
mod link_pages;

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{
    Target,
    bucket::Pass,
    findings::{FoundRow, Kind, Place, Table},
    snapshot,
};

/// Rows of a page: some tens of milliseconds of the database.
pub(super) const PAGE_ROWS: i64 = 5_000;

/// A row of a table, by as much of it as the table's key has.
#[derive(Debug, Clone, Default)]
pub(super) struct Key {
    pub(super) account_id: Uuid,
    /// The link or the entry.
    pub(super) row_id: Uuid,
    pub(super) version: i64,
    pub(super) slug_folded: String,
}

/// A stretch of a table, in the order of its key.
#[derive(Debug, Default)]
pub(super) struct Page {
    rows: u64,
    /// The last row; `None` if that is the table's.
    last: Option<Key>,
    /// With their shards, if they have one.
    pub(super) superfluous: Vec<(Option<i16>, Key)>,
}

/// One of the rows that are superfluous; just the page if there is none.
struct PageRow {
    rows: i64,
    last_account_id: Uuid,
    last_row_id: Uuid,
    last_version: i64,
    last_slug_folded: String,
    account_id: Option<Uuid>,
    row_id: Option<Uuid>,
    version: Option<i64>,
    slug_folded: Option<String>,
    shard: Option<i16>,
}

/// Two parts: `page (account_id, row_id, version, slug_folded, place)`, and those rows of it that
/// are superfluous, with their `shard`.
macro_rules! page_rows {
    ($page:literal, $superfluous:literal, $($argument:expr),+) => {
        sqlx::query_as!(
            crate::verify::superfluous::PageRow,
            "WITH page AS MATERIALIZED (" + $page + "), superfluous AS MATERIALIZED ("
            + $superfluous + r#")
            SELECT (SELECT count(*) FROM page) AS "rows!", last.account_id AS "last_account_id!",
                   last.row_id AS "last_row_id!", last.version AS "last_version!",
                   last.slug_folded AS "last_slug_folded!", s.account_id AS "account_id?",
                   s.row_id AS "row_id?", s.version AS "version?",
                   s.slug_folded AS "slug_folded?", s.shard AS "shard?"
            FROM (SELECT * FROM page ORDER BY place DESC LIMIT 1) AS last
            LEFT JOIN superfluous AS s ON true"#,
            $($argument),+
        )
    };
}

use page_rows;

impl From<Vec<PageRow>> for Page {
    fn from(rows: Vec<PageRow>) -> Self {
        let mut page = Self::default();
        for row in rows {
            page.rows = row.rows.unsigned_abs();
            page.last = (row.rows >= PAGE_ROWS).then_some(Key {
                account_id: row.last_account_id,
                row_id: row.last_row_id,
                version: row.last_version,
                slug_folded: row.last_slug_folded,
            });
            if let Some(account_id) = row.account_id {
                let key = Key {
                    account_id,
                    row_id: row.row_id.unwrap_or_default(),
                    version: row.version.unwrap_or_default(),
                    slug_folded: row.slug_folded.unwrap_or_default(),
                };
                page.superfluous.push((row.shard, key));
            }
        }
        page
    }
}

/// The rows after that one, or the first ones.
pub(super) async fn page(
    tx: &mut PgConnection,
    target: Target,
    table: Table,
    after: Option<&Key>,
) -> sqlx::Result<Page> {
    match table {
        Table::Links => link_pages::links(tx, target, after).await,
        Table::Redirects => link_pages::redirects(tx, target, after).await,
        Table::CreditBalances => credit_pages::balances(tx, target, after).await,
        Table::CreditEntries => credit_pages::entries(tx, target, after).await,
        // They are compared as a whole, at the end of their shard.
        Table::StoppedAccounts => Ok(Page::default()),
    }
}

/// Removes rows that are superfluous.
pub(super) async fn remove(
    tx: &mut PgConnection,
    target: Target,
    table: Table,
    rows: &[Key],
) -> sqlx::Result<u64> {
    match table {
        Table::Links => link_pages::remove_links(tx, target, rows).await,
        Table::Redirects => link_pages::remove_redirects(tx, target, rows).await,
        Table::CreditBalances => credit_pages::remove_balances(tx, target, rows).await,
        Table::CreditEntries => credit_pages::remove_entries(tx, target, rows).await,
        Table::StoppedAccounts => Ok(0),
    }
}

/// Looks through a whole table of a generation.
pub(super) async fn table(pool: &PgPool, target: Target, table: Table) -> anyhow::Result<Pass> {
    let mut pass = Pass::default();
    let mut after = None;
    loop {
        let mut snapshot = snapshot::begin(pool).await?;
        let found = page(&mut snapshot, target, table, after.as_ref())
            .await
            .with_context(|| format!("can't read the table `{}`", table.name()))?;
        snapshot.commit().await?;
        pass.rows_found += found.rows;
        let mismatches = found.superfluous.len() as u64;
        let named = found.superfluous.into_iter().map(|(shard, key)| {
            let shard = shard.and_then(|number| Shard::new(number.into()));
            let row = FoundRow {
                kind: Kind::Superfluous,
                account_id: key.account_id,
                row_id: Some(key.row_id),
                columns: String::new(),
            };
            row.into_finding(table, shard, None)
        });
        let place = Place::Page { table, after };
        pass.findings.add(place, mismatches, named);
        after = found.last;
        if after.is_none() {
            return Ok(pass);
        }
    }
}
